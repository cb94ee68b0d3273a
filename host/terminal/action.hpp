// SPDX-License-Identifier: Apache-2.0
//
// An action of the program, as a row of its table: the verb and the option that select it, its
// help, its options, and its functions. Help, man page and completions are made from the table.
// Each file of cli/actions defines one row; all_actions.hpp has them all.
#pragma once

#include "host/error/exit_code.hpp"
#include "host/terminal/given_options.hpp"
#include "host/terminal/option.hpp"

#include <span>
#include <string_view>
#include <vector>

namespace tenon {

struct CommandLine;
struct Invocation;

enum class Processes {
  kOne,     // the action runs in one process
  kOfRanks  // the process may be one of several ranks, or may start ranks
};

struct Action {
  std::string_view verb;  // selects the action as the first argument: "plan"
  // Selects the action anywhere on the command line. Its values follow the verb too, and its help
  // is that of the action. Its name is "" for training, the default.
  Option option;
  std::span<const Option> options;
  Processes processes = Processes::kOne;
  // Reads the values of `options` into the line.
  //
  // Errors   usage.*
  void (*read)(const GivenOptions& given, CommandLine& line) = nullptr;
  ExitCode (*run)(const CommandLine& line, const Invocation& invocation) = nullptr;

  // Returns the option that selects the action, or one of `options`, by name; null if none exists.
  const Option* find_option(std::string_view name) const;
  // Returns whether the action has the same option with the same meaning.
  bool shares(const Option& option) const;
};

// Actions in the order of the help, training first.
using ActionTable = std::span<const Action* const>;

// Returns the action with this verb; null if none exists.
const Action* find_verb(ActionTable actions, std::string_view verb);

// Returns the options of all actions. Options with equal names are listed once.
std::vector<Option> options_of(ActionTable actions);

}  // namespace tenon
