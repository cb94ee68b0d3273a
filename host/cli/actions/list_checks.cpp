// SPDX-License-Identifier: Apache-2.0
//
// --list-checks: prints what --check-plugin checks.
#include "host/cli/all_actions.hpp"
#include "host/terminal/print_output.hpp"
#include "host/terminal/usage_error.hpp"
#include "host/tools/check/check_report.hpp"

#include <array>

namespace tenon {
namespace {

constexpr std::array kListChecksOptions = {Option{"json", "", "print JSON"},
                                           Option{"markdown", "", "print a Markdown table"}};

void read_list_checks(const GivenOptions& given, CommandLine& line) {
  line.is_json = given.has("json");
  line.is_markdown = given.has("markdown");
  if (line.is_json && line.is_markdown) {
    fail_usage("--json and --markdown contradict each other; give one of them");
  }
}

ExitCode run_list_checks(const CommandLine& line, const Invocation& /*invocation*/) {
  print_output(line.is_json ? checks_json() : line.is_markdown ? checks_markdown() : checks_text());
  return ExitCode::kDone;
}

}  // namespace

const Action kListChecksAction = {
    .verb = "list-checks",
    .option = {"list-checks", "", "print the checks of --check-plugin: names and what they demand"},
    .options = kListChecksOptions,
    .read = read_list_checks,
    .run = run_list_checks};

}  // namespace tenon
