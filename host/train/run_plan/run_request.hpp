// SPDX-License-Identifier: Apache-2.0
//
// Options of one run in addition to the recipe, set by the caller of run_training.hpp.
#pragma once

#include "host/device/gpu_files.hpp"
#include "host/distributed/ranks/rank_environment.hpp"
#include "host/metrics/progress.hpp"
#include "host/recipe/load_recipe.hpp"
#include "host/train/resume/resume_request.hpp"
#include "host/train/run_plan/table_folders.hpp"
#include "host/train/run_state/run_boundary.hpp"
#include "host/train/run_state/step_range.hpp"
#include "host/train/weights/weights_request.hpp"

#include <functional>
#include <optional>
#include <string>

namespace tenon {

class StateTree;
class Trainer;

struct RunRequest {
  std::string run_dir;  // "": runs/NAME-TIME
  Progress::Style style = Progress::Style::kAuto;
  ResumeRequest resume = {};
  std::string command_line;  // for the summary
  // For the commands that a run prints at its end, both quoted for a shell: how the program was
  // called ("build/bin/host"; empty: prints none), and its plugin folders ("--plugin-dir DIR").
  std::string program = {};
  std::string plugin_options = {};
  std::optional<StepRange> profile;
  bool is_eval_only = false;  // evaluate instead of training
  // With is_eval_only and a checkpoint: which of its parameters to evaluate.
  WhichParameters which = WhichParameters::kAuto;
  GpuFiles gpu = {};
  TableFolders tables = {};    // rows to import before training, and to export after it
  RankEnvironment ranks = {};  // which rank this process is
  // Initial parameters. The run saves them as a checkpoint before the first step and ends.
  WeightsImportRequest weights = {};
  // The state of a run with the same recipe, to resume from; null for none. Borrowed.
  const StateTree* start_from = nullptr;
  // Called at each boundary of the run.
  std::function<void(RunBoundary point, Trainer& trainer)> on_boundary = {};
};

}  // namespace tenon
