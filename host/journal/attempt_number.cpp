// SPDX-License-Identifier: Apache-2.0
#include "host/journal/attempt_number.hpp"

#include "host/error/error.hpp"
#include "host/error/plugin_text.hpp"
#include "host/io/durable_file.hpp"
#include "host/io/regular_file.hpp"
#include "host/log/log.hpp"
#include "host/text/formatted.hpp"

#include <charconv>
#include <cstring>
#include <ctime>
#include <limits>
#include <string_view>
#include <system_error>

namespace tenon {
namespace {

[[noreturn]] void fail(const std::string& file, const std::string& what) {
  throw Error("run.dir_unwritable", file + " " + what);
}

// A number that is corrupt must not be used again, and the clock is ahead of all numbers.
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
    number = static_cast<uint64_t>(std::time(nullptr));
    log_warning(formatted(
        "{} is corrupt: it has '{}' instead of the number of the last start; this start gets {}",
        file,
        printable_line(text),
        number + 1));
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
