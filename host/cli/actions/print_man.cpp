// SPDX-License-Identifier: Apache-2.0
//
// --print-man: prints the man page of the program.
#include "host/cli/all_actions.hpp"
#include "host/terminal/print_output.hpp"
#include "host/tools/docs/man_page.hpp"

namespace tenon {
namespace {

ExitCode run_print_man(const CommandLine& /*line*/, const Invocation& /*invocation*/) {
  print_output(man_page(all_actions()));
  return ExitCode::kDone;
}

}  // namespace

const Action kPrintManAction = {.verb = "print-man",
                                .option = {"print-man", "", "print the man page, for man -l"},
                                .options = {},
                                .run = run_print_man};

}  // namespace tenon
