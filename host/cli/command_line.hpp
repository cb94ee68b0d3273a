// SPDX-License-Identifier: Apache-2.0
//
// The command line: what may be said on it, and what was said. It reads arguments and nothing else:
// no file, no environment. All options stand in one table, from which --help is printed too.
// Invariant: an option that has no effect on what is asked for is an error, never passed over.

#pragma once

#include "host/distributed/binding.hpp"
#include "host/log/log.hpp"
#include "host/model/plan_machine.hpp"
#include "host/train/resume_request.hpp"
#include "host/train/step_range.hpp"
#include "host/train/table_folders.hpp"
#include "host/train/weights_request.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

enum class Action {
  kTrain,
  kEvaluate,
  kValidate,
  kPrintRecipe,
  kPrintSchema,
  kPlan,
  kListPlugins,
  kDescribe,
  kExplain,
  kTraceDiff,
  kShowRow,
  kInspect,
  kVerify,
  kCheckpointDiff,
  kExport,
  kVersion,
  kHelp
};

struct CommandLine {
  Action action = Action::kTrain;
  std::string recipe = {};
  std::vector<std::string> plugin_dirs = {};
  std::vector<std::string> sets = {};
  std::string run_dir = {};  // "" where it is not given
  ResumeRequest resume = {};
  std::string describe_kind = {};               // "" for the recipe's keys
  std::string describe_type = {};               // a type, or "plugin-id/type"
  std::vector<std::string> describe_keys = {};  // of the recipe; none for all
  std::string explain_id = {};                  // an error id, or "all"
  std::vector<std::string> traces = {};         // two, to compare
  std::vector<std::string> checkpoints = {};    // one to inspect or verify, or two to compare
  std::string table = {};                       // whose row to show
  std::int64_t row_id = 0;
  std::string rows_from = {};  // "" where the recipe says how rows start
  TableFolders tables = {};
  WeightsExport weights_export = {};         // with kExport
  WeightsImportRequest weights_import = {};  // the first parameters of a run
  std::optional<LogLevel> log_level = std::nullopt;
  std::optional<StepRange> profile = std::nullopt;
  std::uint32_t num_ranks = 0;  // to be started; 0 where this process is to train itself
  Binding binding = Binding::kNuma;
  std::uint32_t max_restarts = 0;  // of all ranks, where one is lost
  std::uint32_t min_ranks = 0;     // that may go on; 0: all
  PlanRequest plan = {};
  bool is_quiet = false;
  bool is_json = false;
  bool is_markdown = false;
  bool use_vet_cache = true;

  bool operator==(const CommandLine&) const = default;
};

// Reads the arguments that follow the program's name.
//
// Errors   usage.bad_option, usage.missing_recipe
CommandLine parse_command_line(const std::vector<std::string>& arguments);

// The arguments without --launch, --bind, --max-restarts and --min-ranks: those of each rank.
std::vector<std::string> arguments_of_rank(const std::vector<std::string>& arguments);

// What --help prints.
std::string help_text(const std::string& program);

// "usage: host --recipe FILE ...": one line, for messages.
std::string usage_line(const std::string& program);

// The words of a command as a shell would take them back.
std::string shell_text(std::span<const std::string> words);

}  // namespace tenon
