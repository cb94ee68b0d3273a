// SPDX-License-Identifier: Apache-2.0
#include "host/journal/attempt_number.hpp"

#include "host/error/error.hpp"
#include "host/error/plugin_text.hpp"
#include "host/io/durable_file.hpp"
#include "host/io/regular_file.hpp"
#include "host/text/formatted.hpp"

#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>
#include <system_error>

namespace tenon {
namespace {

[[noreturn]] void fail(const std::string& file, const std::string& what) {
  throw Error("run.dir_unwritable", file + " " + what);
}

uint64_t last_attempt(const std::string& file) {
  constexpr uint64_t kMaxBytes = 100;
  const FileText content = read_file_text(file, kMaxBytes);
  if (content.is_missing) {
    return 0;
  }
  if (!content.problem.empty()) {
    fail(file,
         "cannot be read: " + content.problem + "; make it readable, or choose another --run-dir");
  }
  const std::string& text = content.text;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_line =
      error == std::errc() && std::string_view(end, text.data() + text.size()) == "\n";
  if (!is_line || number == 0 || number == std::numeric_limits<uint64_t>::max()) {
    fail(file,
         formatted(
             "has no number (expected that of the last attempt, found '{}'); write a number to "
             "it that no earlier attempt has, or choose another --run-dir",
             printable_line(text)));
  }
  return number;
}

}  // namespace

uint64_t claim_attempt(const std::string& run_dir) {
  const std::string file = run_dir + "/" + kAttemptFile;
  const uint64_t number = last_attempt(file) + 1;
  try {
    replace_file(file, formatted("{}\n", number));
  } catch (const DiskError& error) {
    fail(file,
         formatted("cannot be written: {}; {}, or choose another --run-dir",
                   std::strerror(error.number()),
                   disk_advice(error.number())));
  }
  return number;
}

}  // namespace tenon
