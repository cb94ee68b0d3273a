// SPDX-License-Identifier: Apache-2.0
//
// Plans a recipe for a number of ranks: creates the components whose costs are needed, converts the
// recipe to numbers, and computes the plan. Opens no device, allocates no parameter and trains
// nothing. If the schema leaves sizes open, reads one microbatch of data.
#pragma once

#include "host/plugin/registry.hpp"
#include "host/process/process.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/plan/longest_plan.hpp"
#include "host/train/plan/mesh_search.hpp"
#include "host/train/plan/plan_machine.hpp"
#include "host/train/plan/rank_plan.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

struct RecipePlan {
  std::string recipe;     // the file
  std::string device;     // "cpu", "cuda"
  std::string precision;  // as the recipe names it
  PlanRequest request;
  PlanMachine machine;  // as given, otherwise the defaults for the device
  PlanSubject subject;
  int64_t batch_size = 0;       // samples of a microbatch
  int64_t tokens_a_sample = 0;  // 0 if samples have no positions
  RankPlan plan;
  bool exceeds = false;                // the plan needs more memory than given
  std::optional<RankPlan> suggestion;  // if so, the fastest plan that fits
  std::optional<RankPlan> smallest;    // if none fits, the plan with the least memory
  std::vector<LongestPlan> longest;    // if asked for

  int64_t samples_a_step() const {
    const PlanChoice& choice = plan.choice;
    return batch_size * subject.microbatches * request.ranks /
           (choice.context * choice.tensor * choice.pipeline);
  }
};

// Errors  model.no_positions if the longest sequence is asked for, and samples have no positions;
//         distributed.bad_mesh; recipe.indivisible; errors of components, and of the checks between
//         components that also precede a run
// Threads  [main]
RecipePlan plan_recipe(const Recipe& recipe,
                       PluginRegistry& registry,
                       Process& process,
                       const PlanRequest& request);

}  // namespace tenon
