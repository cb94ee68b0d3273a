// SPDX-License-Identifier: Apache-2.0
//
// --version: prints the versions of the program and its dependencies.
#include "host/cli/all_actions.hpp"
#include "host/cli/version_text.hpp"
#include "host/terminal/print_output.hpp"

namespace tenon {
namespace {

ExitCode run_print_version(const CommandLine& /*line*/, const Invocation& /*invocation*/) {
  print_output(version_text() + "\n");
  return ExitCode::kDone;
}

}  // namespace

const Action kPrintVersionAction = {
    .verb = "version",
    .option = {"version", "", "print the versions of Tenon, its ABI and libtorch"},
    .options = {},
    .run = run_print_version};

}  // namespace tenon
