// SPDX-License-Identifier: Apache-2.0
//
// An action of the program: the option that selects it, its options, and its implementation. Each
// file of cli/actions defines one action; all_actions.hpp has the table of them all.
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
  Option option;  // selects the action; its name is "" for training, the default
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

// Returns the options of all actions. Options with equal names are listed once.
std::vector<Option> options_of(ActionTable actions);

}  // namespace tenon
