// SPDX-License-Identifier: Apache-2.0
//
// An action of the program: the option that selects it, its options, and its implementation. Each
// file of actions/ defines one action; all_actions() lists them.
#pragma once

#include "host/cli/command_line.hpp"
#include "host/cli/given_options.hpp"
#include "host/cli/option.hpp"
#include "host/distributed/ranks/rank_environment.hpp"
#include "host/error/exit_code.hpp"

#include <span>
#include <string>
#include <vector>

namespace tenon {

class RunWitness;

enum class Processes {
  kOne,     // the action runs in one process
  kOfRanks  // the process may be one of several ranks, or may start ranks
};

// The process that runs an action.
struct Invocation {
  std::vector<std::string> words;  // the command line, program name first
  RankEnvironment ranks = {};
  RunWitness* witness = nullptr;  // of a run of one process; borrowed
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
};

// All actions, in the order of the help.
extern const Action kTrainAction;
extern const Action kEvaluateAction;
extern const Action kValidateAction;
extern const Action kPrintRecipeAction;
extern const Action kLockAction;
extern const Action kPlanAction;
extern const Action kProcessDataAction;
extern const Action kPrintSchemaAction;
extern const Action kListPluginsAction;
extern const Action kDescribeAction;
extern const Action kNewPluginAction;
extern const Action kCheckPluginAction;
extern const Action kListChecksAction;
extern const Action kExplainAction;
extern const Action kInspectAction;
extern const Action kVerifyAction;
extern const Action kCompareCheckpointsAction;
extern const Action kCompareTracesAction;
extern const Action kShowRowAction;
extern const Action kExportAction;
extern const Action kGenerateAction;
extern const Action kPrintCompletionAction;
extern const Action kPrintManAction;
extern const Action kPrintVersionAction;
extern const Action kPrintHelpAction;

// Returns all actions in the order of the help, training first.
std::span<const Action* const> all_actions();

// Returns the options of all actions. Options with equal names are listed once.
std::vector<Option> all_options();

}  // namespace tenon
