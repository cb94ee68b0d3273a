// SPDX-License-Identifier: Apache-2.0
//
// The parsed command line: the action and the values of its options.
#pragma once

#include "host/distributed/launch/binding.hpp"
#include "host/log/log.hpp"
#include "host/recipe/load_recipe.hpp"
#include "host/schedule/generate_schedule.hpp"
#include "host/schedule/simulate_schedule.hpp"
#include "host/train/generate/generate_request.hpp"
#include "host/train/plan/plan_machine.hpp"
#include "host/train/resume/resume_request.hpp"
#include "host/train/run_plan/table_folders.hpp"
#include "host/train/run_state/step_range.hpp"
#include "host/train/weights/weights_request.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

struct Action;

// What --new-plugin writes.
struct NewPluginRequest {
  std::string kind = {};
  std::string name = {};
  std::string language = {};  // "" for the default of the kind
  std::string folder = {};
  std::string id = {};

  bool operator==(const NewPluginRequest&) const = default;
};

// The schedule of a pipeline that --schedule checks and draws.
struct ScheduleOptions {
  ScheduleRequest request = {};  // 0 ranks or microbatches: as in the file
  std::optional<std::uint32_t> most_held = std::nullopt;
  RankSeconds seconds = {};
  double message_seconds = 0;
  bool is_csv = false;

  bool operator==(const ScheduleOptions&) const = default;
};

// The values of all options. An action sets the values of its own options.
struct CommandLine {
  const Action* action = nullptr;
  std::string recipe = {};
  bool is_recipe_of_run = false;  // written by a run, perhaps of an earlier release
  std::vector<std::string> plugin_dirs = {};
  std::vector<std::string> sets = {};
  std::string run_dir = {};  // "" if not given
  ResumeRequest resume = {};
  // Parameters of a checkpoint to evaluate, export, or generate with.
  WhichParameters which = WhichParameters::kAuto;
  std::string describe_kind = {};               // "" for the recipe's keys
  std::string describe_type = {};               // a type, or "plugin-id/type"
  std::vector<std::string> describe_keys = {};  // keys of the recipe; empty for all
  std::string checked_plugin = {};              // file to check
  std::string check_name = {};                  // a check, or a group of them; "" for all
  std::uint64_t check_seed = 0;                 // of the random inputs of checks
  std::string explain_id = {};                  // an error id, or "all"
  std::string shell = {};                       // bash, fish or zsh
  std::vector<std::string> traces = {};         // two files to compare
  std::vector<std::string> checkpoints = {};    // one to inspect or verify, or two to compare
  std::string table = {};                       // table of the row to print
  std::int64_t row_id = 0;
  std::string rows_from = {};  // folder of exported rows; "" for initial values
  TableFolders tables = {};
  NewPluginRequest new_plugin = {};
  WeightsExport weights_export = {};
  WeightsImportRequest weights_import = {};
  GenerateRequest generate = {};
  std::optional<LogLevel> log_level = std::nullopt;
  std::optional<StepRange> profile = std::nullopt;
  std::uint32_t num_ranks = 0;  // ranks to start; 0 if this process trains
  Binding binding = Binding::kNuma;
  std::uint32_t max_restarts = 0;  // restarts of all ranks after the loss of a rank
  std::uint32_t min_ranks = 0;     // fewest ranks to continue training on; 0 for all
  std::int64_t num_shown = 0;      // samples that --process-data prints
  PlanRequest plan = {};
  ScheduleOptions schedule = {};
  bool is_quiet = false;
  bool is_json = false;
  bool is_markdown = false;
  bool use_vet_cache = true;
  std::string trust = {};  // trust file; "" for the recipe's
  bool allows_writable_plugins = false;
  bool checks_plugins = false;

  bool operator==(const CommandLine&) const = default;
};

}  // namespace tenon
