// SPDX-License-Identifier: Apache-2.0
//
// One training run, from a checked recipe to its outcome: creates the components, matches them with
// each other, allocates, makes the run folder, runs the loop and leaves the summary. Invariant:
// what can be known to be wrong without allocating is found before the run folder exists. Threads:
// [main]; plugins must be vetted before, since this starts threads.
#pragma once

#include "host/device/gpu_places.hpp"
#include "host/distributed/rank_environment.hpp"
#include "host/metrics/progress.hpp"
#include "host/plugin/registry.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/outcome.hpp"
#include "host/train/resume_request.hpp"
#include "host/train/step_range.hpp"
#include "host/train/table_folders.hpp"
#include "host/train/weights_request.hpp"

#include <functional>
#include <optional>
#include <string>

namespace tenon {

class StateTree;
class Trainer;
enum class RestPoint;

struct RunRequest {
  std::string run_dir;  // "": runs/NAME-TIME
  Progress::Style style = Progress::Style::kAuto;
  ResumeRequest resume = {};
  std::string command_line;  // for the summary
  std::optional<StepRange> profile;
  bool is_eval_only = false;  // evaluate with the initial parameters, in place of training
  GpuPlaces gpu = {};
  TableFolders tables = {};    // rows to begin with, and to leave
  RankEnvironment ranks = {};  // which of them this process is
  // Parameters to begin with: they are saved as a checkpoint before the first step, and the run
  // ends.
  WeightsImportRequest weights = {};
  // The state of a run like this one, to go on from; null: none. It is borrowed.
  const StateTree* start_from = nullptr;
  // Is called wherever the run is at rest.
  std::function<void(RestPoint point, Trainer& trainer)> at_rest = {};
};

// Opens the recipe's device, creates its components and holds them against each other, without
// allocating or training: what `--validate` can still find after the recipe itself is known to be
// sound. Nobody is joined; where `ranks` has more than one, the recipe is checked for as many.
// Errors  as run_training's before the folder exists
void check_training(const Recipe& recipe,
                    PluginRegistry& registry,
                    const GpuPlaces& gpu,
                    const RankEnvironment& ranks);

// What the recipe alone says of so many ranks: the mesh, and the step.
// Errors  distributed.bad_mesh, recipe.indivisible
void check_number_of_ranks(const Recipe& recipe, uint32_t world_size);

// Joins the other ranks and trains with them. What fails on one of them before the folder exists
// fails on all, as a SharedFailure.
// Errors  recipe.no_eval; whatever ends a run before its folder exists; later errors are in the
// outcome
Outcome run_training(const Recipe& recipe, PluginRegistry& registry, const RunRequest& request);

}  // namespace tenon
