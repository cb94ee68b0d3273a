// SPDX-License-Identifier: Apache-2.0
//
// --explain: prints the explanation of an error.
#include "host/cli/all_actions.hpp"
#include "host/terminal/print_output.hpp"
#include "host/tools/docs/explain_error.hpp"

namespace tenon {
namespace {

void read_explain(const GivenOptions& given, CommandLine& line) {
  line.explain_id = given.value_of("explain");
}

ExitCode run_explain(const CommandLine& line, const Invocation& /*invocation*/) {
  print_output(explain_error(line.explain_id));
  return ExitCode::kDone;
}

}  // namespace

const Action kExplainAction = {
    .verb = "explain",
    .option = {"explain",
               "ERROR-ID",
               "print what an error means and how to fix it; \"all\" lists the ids"},
    .options = {},
    .read = read_explain,
    .run = run_explain};

}  // namespace tenon
