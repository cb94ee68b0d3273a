// SPDX-License-Identifier: Apache-2.0
//
// --inspect: prints the contents of a checkpoint.
#include "host/cli/all_actions.hpp"
#include "host/terminal/print_output.hpp"
#include "host/tools/inspect/inspect_checkpoint.hpp"

#include <array>

namespace tenon {
namespace {

constexpr std::array kInspectOptions = {Option{"json", "", "print the index as JSON"}};

void read_inspect(const GivenOptions& given, CommandLine& line) {
  line.checkpoints = given.values_of("inspect");
  line.is_json = given.has("json");
}

ExitCode run_inspect(const CommandLine& line, const Invocation& /*invocation*/) {
  const InspectForm form = line.is_json ? InspectForm::kJson : InspectForm::kText;
  print_output(inspected_text(line.checkpoints.front(), form));
  return ExitCode::kDone;
}

}  // namespace

const Action kInspectAction = {
    .verb = "inspect",
    .option = {"inspect",
               "CHECKPOINT",
               "print the contents of a checkpoint; a run folder stands for its\n"
               "newest checkpoint"},
    .options = kInspectOptions,
    .read = read_inspect,
    .run = run_inspect};

}  // namespace tenon
