// SPDX-License-Identifier: Apache-2.0
//
// --verify: reads a complete checkpoint and verifies its checksums.
#include "host/cli/all_actions.hpp"
#include "host/terminal/print_output.hpp"
#include "host/tools/inspect/inspect_checkpoint.hpp"

namespace tenon {
namespace {

void read_verify(const GivenOptions& given, CommandLine& line) {
  line.checkpoints = given.values_of("verify");
}

ExitCode run_verify(const CommandLine& line, const Invocation& /*invocation*/) {
  print_output(verified_text(line.checkpoints.front()));
  return ExitCode::kDone;
}

}  // namespace

const Action kVerifyAction = {
    .verb = "verify",
    .option = {"verify", "CHECKPOINT", "read a whole checkpoint and verify its checksums"},
    .options = {},
    .read = read_verify,
    .run = run_verify};

}  // namespace tenon
