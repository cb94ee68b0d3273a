// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/launch/rank_output.hpp"

#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/text/joined.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

// The start of the last line that a rank writes to the pipe.
constexpr std::string_view kMoved = "[tenon] the output of this rank continues in ";

std::string end_of_file(int file, size_t max_bytes) {
  const off_t size = ::lseek(file, 0, SEEK_END);
  const off_t begin = std::max<off_t>(0, size - static_cast<off_t>(max_bytes));
  std::string text(static_cast<size_t>(std::max<off_t>(0, size - begin)), '\0');
  const ssize_t count = ::pread(file, text.data(), text.size(), begin);
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, count)));
  if (begin > 0) {
    text.erase(0, text.find('\n') + 1);  // drops a partial line
  }
  return text;
}

}  // namespace

void move_output_to(const std::string& log_file) {
  attach_log_file(log_file);
  const int file = ::open(log_file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) {
    throw Error("run.dir_unwritable",
                "cannot open the log file " + log_file + ": " + std::strerror(errno) +
                    "; choose another folder with --run-dir, or make this one writable");
  }
  stop_terminal_log();
  std::fflush(stdout);
  std::fprintf(stderr, "%s%s\n", kMoved.data(), log_file.c_str());
  std::fflush(stderr);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  ::close(file);
}

RankOutput::RankOutput(RankOutput&& other) noexcept
    : pipe_(std::exchange(other.pipe_, -1)),
      file_(std::exchange(other.file_, -1)),
      kept_(std::move(other.kept_)),
      log_file_(std::move(other.log_file_)) {}

RankOutput::~RankOutput() {
  for (const int fd : {pipe_, file_}) {
    if (fd >= 0) {
      ::close(fd);
    }
  }
}

void RankOutput::read_available() {
  std::array<char, 4096> buffer;
  while (pipe_ >= 0) {
    const ssize_t count = ::read(pipe_, buffer.data(), buffer.size());
    if (count > 0) {
      take({buffer.data(), static_cast<size_t>(count)});
    } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
      ::close(std::exchange(pipe_, -1));
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

void RankOutput::take(const std::string& text) {
  kept_ += text;
  const size_t mark = kept_.find(kMoved);
  const size_t end = mark == std::string::npos ? mark : kept_.find('\n', mark);
  if (end != std::string::npos) {
    follow(kept_.substr(mark + kMoved.size(), end - mark - kMoved.size()));
    kept_.erase(mark, end + 1 - mark);
  }
  if (kept_.size() > kMaxBytes) {
    kept_.erase(0, kept_.size() - kMaxBytes);
  }
}

// Appends output from before the file existed to the file, except log lines, which it has already.
void RankOutput::follow(const std::string& log_file) {
  log_file_ = log_file;
  if (file_ >= 0) {
    ::close(file_);
  }
  file_ = ::open(log_file.c_str(), O_RDWR | O_APPEND | O_CLOEXEC);
  std::string printed;
  for (const std::string_view line : lines_of(kept_)) {
    if (!line.starts_with("[rank ") && !line.starts_with(kMoved)) {
      printed.append(line).append("\n");
    }
  }
  if (file_ >= 0 && !printed.empty() && ::write(file_, printed.data(), printed.size()) < 0) {
    ::close(std::exchange(file_, -1));  // disk full: kept_ is used instead
  }
}

std::vector<std::string> RankOutput::last_lines(size_t count) const {
  const std::string text = file_ >= 0 ? end_of_file(file_, kMaxBytes) : kept_;
  const std::vector<std::string_view> lines = lines_of(text);
  return {lines.end() - static_cast<std::ptrdiff_t>(std::min(count, lines.size())), lines.end()};
}

}  // namespace tenon
