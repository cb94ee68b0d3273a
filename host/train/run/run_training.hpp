// SPDX-License-Identifier: Apache-2.0
//
// One training run, from a checked recipe to its outcome. What happens in between is RunSession's
// (the order of things, and failures), RunComponents' (what the recipe names) and RunEngine's (what
// is allocated).
// Threads: [main]; plugins must be vetted before, since this starts threads.
#pragma once

#include "host/device/gpu_places.hpp"
#include "host/distributed/ranks/rank_environment.hpp"
#include "host/plugin/registry.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/run/run_request.hpp"
#include "host/train/run_state/outcome.hpp"

#include <cstdint>

namespace tenon {

// Opens the recipe's device, creates its components and matches them with each other, without
// allocating or training: what `--validate` can still find in a recipe that is valid by itself. No
// rank is joined; the recipe is checked for as many as `ranks` has.
//
// Errors  those of run_training before the folder exists
void check_training(const Recipe& recipe,
                    PluginRegistry& registry,
                    const GpuPlaces& gpu,
                    const RankEnvironment& ranks);

// Checks what the recipe alone says of this number of ranks: the mesh, and the step.
//
// Errors  distributed.bad_mesh, recipe.indivisible
void check_number_of_ranks(const Recipe& recipe, uint32_t world_size);

// Joins the other ranks and trains with them. An error of one rank before the folder exists fails
// all of them, as a SharedFailure.
//
// Errors  recipe.no_eval; whatever ends a run before its folder exists; later errors are in the
//         outcome
Outcome run_training(const Recipe& recipe, PluginRegistry& registry, const RunRequest& request);

}  // namespace tenon
