// SPDX-License-Identifier: Apache-2.0
//
// The actions of the program, and what they get from it.
#pragma once

#include "host/cli/command_line.hpp"
#include "host/distributed/ranks/rank_environment.hpp"
#include "host/terminal/action.hpp"

#include <string>
#include <vector>

namespace tenon {

class Process;

// The process that runs an action.
struct Invocation {
  std::vector<std::string> words;  // the command line, program name first
  Process& process;                // borrowed
  RankEnvironment ranks = {};
};

// All actions, in the order of the help.
extern const Action kTrainAction;
extern const Action kEvaluateAction;
extern const Action kValidateAction;
extern const Action kPrintRecipeAction;
extern const Action kLockAction;
extern const Action kPlanAction;
extern const Action kScheduleAction;
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

// Returns the table of all actions.
ActionTable all_actions();

}  // namespace tenon
