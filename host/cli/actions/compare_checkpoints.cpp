// SPDX-License-Identifier: Apache-2.0
//
// --diff: compares two checkpoints.
#include "host/cli/all_actions.hpp"
#include "host/terminal/print_output.hpp"
#include "host/tools/inspect/inspect_checkpoint.hpp"

namespace tenon {
namespace {

void read_compare_checkpoints(const GivenOptions& given, CommandLine& line) {
  line.checkpoints = given.values_of("diff");
}

ExitCode run_compare_checkpoints(const CommandLine& line, const Invocation& /*invocation*/) {
  const CheckpointComparison result =
      compared_checkpoints(line.checkpoints.front(), line.checkpoints.back());
  print_output(result.text);
  return result.is_equal ? ExitCode::kDone : ExitCode::kDifferent;
}

}  // namespace

const Action kCompareCheckpointsAction = {
    .verb = "diff",
    .option = {"diff",
               "A B",
               "compare two checkpoints: metadata, recipes, plugins and each entry of\n"
               "the state"},
    .options = {},
    .read = read_compare_checkpoints,
    .run = run_compare_checkpoints};

}  // namespace tenon
