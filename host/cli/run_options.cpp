// SPDX-License-Identifier: Apache-2.0
#include "host/cli/run_options.hpp"

#include "host/terminal/usage_error.hpp"

namespace tenon {
namespace {

ResumeRequest read_resume(const std::string& text) {
  if (text.empty() || text == "none") {
    return {.from = ResumeFrom::kNone};
  }
  if (text == "auto") {
    return {.from = ResumeFrom::kAuto};
  }
  return {.from = ResumeFrom::kPath, .path = text};
}

}  // namespace

void read_run_options(const GivenOptions& given, CommandLine& line) {
  line.run_dir = given.value_of("run-dir");
  line.resume = read_resume(given.value_of("resume"));
  line.checks_plugins = given.has("check-plugins");
  line.tables.import_from = given.value_of("import-tables");
  if (line.resume.from == ResumeFrom::kPath && !line.tables.import_from.empty()) {
    fail_usage(
        "--resume and --import-tables contradict each other: a checkpoint has the rows of all "
        "tables; give one of them");
  }
}

}  // namespace tenon
