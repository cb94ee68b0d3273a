// SPDX-License-Identifier: Apache-2.0
//
// The only file of the host that includes spdlog (whose fmt is not the one in torch's includes).
// Two loggers, not one with two sinks: the terminal shows bare text, the file time and level.

#include "host/log/log.hpp"

#include "host/error/credentials.hpp"
#include "host/error/error.hpp"
#include "host/error/plugin_text.hpp"
#include "host/log/log_listener.hpp"
#include "host/text/formatted.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

// Maximum number of lines that wait for the log file; the oldest are dropped first. Enough for any
// run before its folder exists, and a bound for programs without a log file.
constexpr std::size_t kMaxWaitingLines = 10000;

struct WaitingLine {
  spdlog::log_clock::time_point time;
  LogLevel level;
  std::string text;
};

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

// Opens a file to append to. Returns the descriptor; -1 with a reason if it cannot be opened, or is
// a FIFO or a link of another user. Never waits.
int open_log_file(const std::string& path, std::string& problem) {
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  struct stat status {};
  const bool is_own_link = ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode) &&
                           status.st_uid == ::geteuid();
  const int file = ::open(path.c_str(), is_own_link ? kFlags : kFlags | O_NOFOLLOW, 0666);
  const int error = errno;
  // A device such as /dev/null or a terminal may be named on purpose.
  if (file >= 0 && ::fstat(file, &status) == 0 &&
      (S_ISREG(status.st_mode) || S_ISCHR(status.st_mode))) {
    return file;
  }
  if (file >= 0) {
    ::close(file);
  }
  problem = file >= 0 || error == ENXIO ? "it is not a regular file"
            : error == ELOOP            ? "it is a link of another user"
                                        : std::strerror(error);
  return -1;
}

// Appends lines to an open file, each with one system call.
class FileSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FileSink(int file) : file_(file) {}
  ~FileSink() override { ::close(file_); }
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const char* at = line.data();
    for (size_t left = line.size(); left > 0;) {
      const ssize_t count = ::write(file_, at, left);
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count <= 0) {
        throw spdlog::spdlog_ex("cannot write to the log file", errno);
      }
      at += count;
      left -= static_cast<size_t>(count);
    }
  }
  void flush_() override {}

 private:
  const int file_;
};

class Log {
 public:
  Log() { set_up(LogSetup{}); }

  void set_up(const LogSetup& setup) {
    const std::lock_guard lock(mutex_);
    level_.store(setup.level);
    num_lost_.store(0);
    waiting_.clear();
    file_.reset();
    terminal_.reset();
    terminal_level_ = setup.rank == 0 ? LogLevel::kDebug : LogLevel::kWarning;
    prefix_ = setup.num_ranks > 1 ? formatted("[rank {}] ", setup.rank) : std::string();
    if (setup.terminal) {
      auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
      const char* const no_color = std::getenv("NO_COLOR");  // https://no-color.org
      if (no_color != nullptr && *no_color != '\0') {
        sink->set_color_mode(spdlog::color_mode::never);
      }
      terminal_ = make_logger(std::move(sink));
    }
    if (!setup.file.empty()) {
      open_file(setup.file);
    }
  }

  void attach(const std::string& path) {
    const std::lock_guard lock(mutex_);
    open_file(path);
    for (const WaitingLine& line : std::exchange(waiting_, {})) {
      file_->log(line.time, spdlog::source_loc{}, to_spdlog(line.level), line.text);
    }
  }

  enum class To { kAll, kFile };

  void write(LogLevel level, std::string_view raw_text, To to = To::kAll) {
    // May quote names from files, and URIs.
    const std::string text = printable_text(hide_credentials(raw_text));
    write_line(level, text, to);
    if (level >= LogLevel::kWarning) {
      pass_to_log_listener(level == LogLevel::kError ? LoggedKind::kError : LoggedKind::kWarning,
                           text);
    }
  }

  void stop_terminal() {
    const std::lock_guard lock(mutex_);
    terminal_.reset();
  }

  void flush() {
    const std::lock_guard lock(mutex_);
    for (spdlog::logger* const logger : {terminal_.get(), file_.get()}) {
      if (logger != nullptr) {
        logger->flush();
      }
    }
  }

  void set_status_line(bool is_shown) { has_status_line_ = is_shown; }
  bool has_status_line() const { return has_status_line_; }

  bool is_logged(LogLevel level) const { return level >= level_.load(); }
  long num_lost() const { return num_lost_.load(); }

 private:
  void write_line(LogLevel level, const std::string& text, To to) {
    const std::lock_guard lock(mutex_);
    const auto now = spdlog::log_clock::now();
    if (terminal_ != nullptr && to == To::kAll && level >= terminal_level_) {
      erase_status_line();
      // Every level except info is printed as a word, because there may be no color. The marks in
      // the pattern color only this word.
      terminal_->set_pattern(level == LogLevel::kInfo ? prefix_ + "%v" : prefix_ + "%^%l:%$ %v");
      terminal_->log(now, spdlog::source_loc{}, to_spdlog(level), text);
    }
    std::string line = prefix_ + text;
    if (file_ != nullptr) {
      file_->log(now, spdlog::source_loc{}, to_spdlog(level), line);
    } else {
      if (waiting_.size() == kMaxWaitingLines) {
        waiting_.pop_front();
      }
      waiting_.push_back({now, level, std::move(line)});
    }
  }

  std::unique_ptr<spdlog::logger> make_logger(spdlog::sink_ptr sink) {
    auto logger = std::make_unique<spdlog::logger>("tenon", std::move(sink));
    logger->set_level(spdlog::level::trace);  // `level_` was checked already
    // A plugin may crash the process at any time; lines are too rare to need a buffer.
    logger->flush_on(spdlog::level::info);
    // spdlog calls this handler instead of throwing. Its default handler prints to stderr, which
    // may be the broken output.
    logger->set_error_handler([this](const std::string&) { num_lost_.fetch_add(1); });
    return logger;
  }

  void erase_status_line() {
    if (has_status_line_ && ::isatty(STDERR_FILENO) != 0) {
      has_status_line_ = false;
      constexpr std::string_view kErase = "\r\x1b[K";
      (void)!::write(STDERR_FILENO, kErase.data(), kErase.size());
    }
  }

  void open_file(const std::string& path) {
    std::string problem;
    const int file = open_log_file(path, problem);
    if (file < 0) {
      throw Error("run.dir_unwritable",
                  "cannot open the log file " + path + ": " + problem +
                      "; choose another folder with --run-dir, or make this one writable");
    }
    auto logger = make_logger(std::make_shared<FileSink>(file));
    logger->set_pattern("%Y-%m-%d %H:%M:%S.%e [%l] %v");
    file_ = std::move(logger);
  }

  std::mutex mutex_;
  std::string prefix_;
  LogLevel terminal_level_ = LogLevel::kDebug;
  std::unique_ptr<spdlog::logger> terminal_;
  std::unique_ptr<spdlog::logger> file_;
  std::deque<WaitingLine> waiting_;
  std::atomic<LogLevel> level_ = LogLevel::kInfo;
  std::atomic<long> num_lost_ = 0;
  std::atomic<bool> has_status_line_ = false;
};

// Never destroyed: a plugin's thread may log while the process exits.
Log& the_log() {
  static Log* const process_log = new Log;
  return *process_log;
}

}  // namespace

void set_up_log(const LogSetup& setup) {
  the_log().set_up(setup);
}

void attach_log_file(const std::string& path) {
  the_log().attach(path);
}

void stop_terminal_log() {
  the_log().stop_terminal();
}

void log(LogLevel level, std::string_view text) noexcept {
  try {
    if (the_log().is_logged(level)) {
      the_log().write(level, text);
    }
  } catch (const std::exception&) {  // out of memory; the error cannot be reported
  }
}

void log_to_file(std::string_view text) noexcept {
  try {
    the_log().write(LogLevel::kInfo, text, Log::To::kFile);
  } catch (const std::exception&) {  // as in log()
  }
}

void set_status_line(bool is_shown) noexcept {
  the_log().set_status_line(is_shown);
}

bool has_status_line() noexcept {
  return the_log().has_status_line();
}

bool is_logged(LogLevel level) noexcept {
  return the_log().is_logged(level);
}

void flush_log() noexcept {
  try {
    the_log().flush();
  } catch (const std::exception&) {  // as in log()
  }
}

long num_lost_log_lines() noexcept {
  return the_log().num_lost();
}

std::string_view log_level_name(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "error";
}

}  // namespace tenon
