// SPDX-License-Identifier: Apache-2.0
//
// Runs one training run, from a checked recipe to its outcome. RunSession controls the stages and
// handles failures, plan_run() plans, and AllocatedRun has the services that the Trainer uses.
// Threads: [main]; vet plugins before, because these functions start threads.
#pragma once

#include "host/device/gpu_files.hpp"
#include "host/distributed/ranks/rank_environment.hpp"
#include "host/plugin/registry.hpp"
#include "host/process/process.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/run_plan/run_request.hpp"
#include "host/train/run_state/outcome.hpp"

#include <cstdint>

namespace tenon {

// Opens the recipe's device, creates its components and matches them with each other, without
// allocating or training. `--validate` uses it to find errors in a recipe that is valid by itself.
// Joins no other ranks; checks the recipe for the number of ranks in `ranks`.
//
// Errors  those of run_training before the folder exists
void check_training(const Recipe& recipe,
                    PluginRegistry& registry,
                    Process& process,
                    const GpuFiles& gpu,
                    const RankEnvironment& ranks);

// Checks that the recipe's mesh and step fit this number of ranks.
//
// Errors  distributed.bad_mesh, recipe.indivisible
void check_number_of_ranks(const Recipe& recipe, uint32_t num_ranks);

// Joins the other ranks and trains with them. An error of one rank before the folder exists fails
// all ranks, as a SharedFailure. SIGTERM and SIGINT stop the run in order, also before its first
// step; a rank that still waits for other ranks to join ends at once. Settings of the process are
// restored at the end.
//
// Errors  recipe.no_eval; any error before the folder exists; later errors are in the outcome
Outcome run_training(const Recipe& recipe,
                     PluginRegistry& registry,
                     Process& process,
                     const RunRequest& request);

}  // namespace tenon
