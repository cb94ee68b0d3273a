// SPDX-License-Identifier: Apache-2.0
//
// The only file of the host that includes spdlog (whose fmt is not the one in torch's includes).
// Two loggers, not one with two sinks: the terminal shows bare text, the file time and level.

#include "host/log/log.hpp"

#include "host/error/credentials.hpp"
#include "host/error/error.hpp"
#include "host/error/plugin_text.hpp"
#include "host/text/formatted.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
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
    prefix_ = setup.world_size > 1 ? formatted("[rank {}] ", setup.rank) : std::string();
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
    const std::lock_guard lock(mutex_);
    const auto now = spdlog::log_clock::now();
    if (terminal_ != nullptr && to == To::kAll && level >= terminal_level_) {
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

  bool is_logged(LogLevel level) const { return level >= level_.load(); }
  long num_lost() const { return num_lost_.load(); }

 private:
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

  void open_file(const std::string& path) {
    try {
      auto logger = make_logger(std::make_shared<spdlog::sinks::basic_file_sink_mt>(path));
      logger->set_pattern("%Y-%m-%d %H:%M:%S.%e [%l] %v");
      file_ = std::move(logger);
    } catch (const spdlog::spdlog_ex& failure) {
      throw Error("run.dir_unwritable",
                  "cannot open the log file " + path + ": " + failure.what() +
                      "; choose another folder with --run-dir, or make this one writable");
    }
  }

  std::mutex mutex_;
  std::string prefix_;
  LogLevel terminal_level_ = LogLevel::kDebug;
  std::unique_ptr<spdlog::logger> terminal_;
  std::unique_ptr<spdlog::logger> file_;
  std::deque<WaitingLine> waiting_;
  std::atomic<LogLevel> level_ = LogLevel::kInfo;
  std::atomic<long> num_lost_ = 0;
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
