// SPDX-License-Identifier: Apache-2.0
//
// A recipe planned for a number of ranks: creates the components whose costs are asked for, puts
// the recipe into numbers and has them counted. It opens no device, allocates no parameter and
// trains nothing.
#pragma once

#include "host/plugin/registry.hpp"
#include "host/recipe/recipe.hpp"
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
  PlanMachine machine;  // as it was given, or as usual for the device
  PlanSubject subject;
  int64_t batch_size = 0;       // samples of a microbatch
  int64_t tokens_a_sample = 0;  // 0 if samples have no positions
  RankPlan plan;
  bool exceeds = false;                // the memory that was given
  std::optional<RankPlan> suggestion;  // where it is exceeded: the cheapest that fits
  std::optional<RankPlan> smallest;    // if none fits

  int64_t samples_a_step() const { return batch_size * subject.microbatches * request.ranks; }
};

// Errors  distributed.bad_mesh; recipe.indivisible; what components refuse, and what holds them
//         against each other, as before a run
// Threads [main]
RecipePlan plan_recipe(const Recipe& recipe, PluginRegistry& registry, const PlanRequest& request);

}  // namespace tenon
