// SPDX-License-Identifier: Apache-2.0
//
// --trace-diff: compares two event traces.
#include "host/cli/all_actions.hpp"
#include "host/terminal/print_output.hpp"
#include "host/tools/inspect/trace_diff.hpp"

namespace tenon {
namespace {

void read_compare_traces(const GivenOptions& given, CommandLine& line) {
  line.traces = given.values_of("trace-diff");
}

ExitCode run_compare_traces(const CommandLine& line, const Invocation& /*invocation*/) {
  const TraceComparison result = compare_traces(line.traces.front(), line.traces.back());
  print_output(result.text);
  return result.is_equal ? ExitCode::kDone : ExitCode::kDifferent;
}

}  // namespace

const Action kCompareTracesAction = {
    .verb = "trace-diff",
    .option = {"trace-diff",
               "A B",
               "compare two files of the hook event_trace and print the first\n"
               "difference"},
    .options = {},
    .read = read_compare_traces,
    .run = run_compare_traces};

}  // namespace tenon
