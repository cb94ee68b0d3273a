// SPDX-License-Identifier: Apache-2.0
//
// --help: prints all options of all actions.
#include "host/cli/all_actions.hpp"
#include "host/cli/help_text.hpp"
#include "host/terminal/print_output.hpp"

namespace tenon {
namespace {

ExitCode run_print_help(const CommandLine& /*line*/, const Invocation& invocation) {
  print_output(help_text(invocation.words.front()));
  return ExitCode::kDone;
}

}  // namespace

const Action kPrintHelpAction = {.verb = "help",
                                 .option = {"help", "", "print this text"},
                                 .options = {},
                                 .run = run_print_help};

}  // namespace tenon
