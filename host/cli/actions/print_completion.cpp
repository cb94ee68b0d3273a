// SPDX-License-Identifier: Apache-2.0
//
// --print-completion: prints the script with which a shell completes the command line.
#include "host/cli/all_actions.hpp"
#include "host/terminal/print_output.hpp"
#include "host/terminal/usage_error.hpp"
#include "host/tools/shell/bash_completion.hpp"
#include "host/tools/shell/fish_completion.hpp"
#include "host/tools/shell/zsh_completion.hpp"

#include <algorithm>
#include <array>

namespace tenon {
namespace {

struct Shell {
  std::string_view name;
  std::string (*script)(ActionTable actions);
};

constexpr std::array kShells = {
    Shell{"bash", bash_completion}, Shell{"zsh", zsh_completion}, Shell{"fish", fish_completion}};

void read_print_completion(const GivenOptions& given, CommandLine& line) {
  line.shell = given.value_of("print-completion");
  if (std::ranges::find(kShells, line.shell, &Shell::name) == kShells.end()) {
    std::vector<std::string> names;
    for (const Shell& shell : kShells) {
      names.emplace_back(shell.name);
    }
    fail_word("print-completion", line.shell, names);
  }
}

ExitCode run_print_completion(const CommandLine& line, const Invocation& /*invocation*/) {
  print_output(std::ranges::find(kShells, line.shell, &Shell::name)->script(all_actions()));
  return ExitCode::kDone;
}

}  // namespace

const Action kPrintCompletionAction = {
    .verb = "print-completion",
    .option = {"print-completion",
               "SHELL",
               "print the script with which bash, zsh or fish completes the command\n"
               "tenon",
               Repeat::kNo,
               "bash zsh fish"},
    .options = {},
    .read = read_print_completion,
    .run = run_print_completion};

}  // namespace tenon
