// SPDX-License-Identifier: Apache-2.0
#include "host/cli/standard_input.hpp"

#include "host/cli/usage_error.hpp"
#include "host/error/error.hpp"
#include "host/error/utf8.hpp"
#include "host/log/log.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <unistd.h>

namespace tenon {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20;

}  // namespace

std::string read_standard_input(const std::string& what) {
  if (isatty(STDIN_FILENO) != 0) {
    log_info("reading " + what + " from the terminal; end it with Ctrl-D on a new line");
  }
  std::string text;
  std::array<char, 65536> buffer{};
  for (;;) {
    const ssize_t n = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      throw Error("storage.io",
                  "standard input cannot be read: " + std::generic_category().message(errno));
    }
    if (n == 0) {
      break;
    }
    text.append(buffer.data(), static_cast<std::size_t>(n));
    if (text.size() > kMostBytes) {
      fail_usage(what + " on standard input has more than 64 MB");
    }
  }
  if (!is_utf8(text)) {
    fail_usage(what + " on standard input is not UTF-8");
  }
  if (text.ends_with('\n')) {
    text.pop_back();
  }
  return text;
}

}  // namespace tenon
