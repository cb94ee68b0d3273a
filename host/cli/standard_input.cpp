// SPDX-License-Identifier: Apache-2.0
#include "host/cli/standard_input.hpp"

#include "host/error/error.hpp"
#include "host/error/utf8.hpp"
#include "host/log/log.hpp"
#include "host/terminal/usage_error.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <system_error>
#include <unistd.h>

namespace tenon {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20;

// Appends what can be read. Returns false at the end of the input.
bool read_more(std::string& text, const std::string& what) {
  std::array<char, 65536> buffer{};
  ssize_t n = 0;
  do {
    n = ::read(STDIN_FILENO, buffer.data(), buffer.size());
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    throw Error("storage.io",
                "standard input cannot be read: " + std::generic_category().message(errno));
  }
  text.append(buffer.data(), static_cast<std::size_t>(n));
  if (text.size() > kMostBytes) {
    fail_usage(what + " on standard input has more than 64 MB");
  }
  return n > 0;
}

void check_utf8(const std::string& text, const std::string& what) {
  if (!is_utf8(text)) {
    fail_usage(what + " on standard input is not UTF-8");
  }
}

}  // namespace

std::string read_standard_input(const std::string& what) {
  if (isatty(STDIN_FILENO) != 0) {
    log_info("reading " + what + " from the terminal; end it with Ctrl-D on a new line");
  }
  std::string text;
  while (read_more(text, what)) {
  }
  check_utf8(text, what);
  if (text.ends_with('\n')) {
    text.pop_back();
  }
  return text;
}

std::optional<std::string> InputLines::next(const std::string& prompt) {
  if (isatty(STDIN_FILENO) != 0) {
    std::fputs(prompt.c_str(), stderr);
  }
  while (!is_over_ && rest_.find('\n') == std::string::npos) {
    is_over_ = !read_more(rest_, "a line");
  }
  if (rest_.empty()) {
    return std::nullopt;
  }
  const std::size_t end = std::min(rest_.find('\n'), rest_.size());
  std::string line = rest_.substr(0, end);
  rest_.erase(0, end + 1);
  if (line.ends_with('\r')) {
    line.pop_back();
  }
  check_utf8(line, "a line");
  return line;
}

}  // namespace tenon
