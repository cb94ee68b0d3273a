// SPDX-License-Identifier: Apache-2.0
//
// Searches the ways to shard a model over a number of ranks for the fastest that fits into memory.
// Varies the degrees of the mesh, stage, recompute and offload. None of them changes what a step
// computes.
#pragma once

#include "host/train/plan/rank_plan.hpp"

#include <cstdint>
#include <optional>

namespace tenon {

// Returns the plan with the shortest step among those that need at most `memory` bytes per rank; of
// equal plans, the one closest to `given`. Returns nothing if none fits.
std::optional<RankPlan> cheapest_that_fits(const PlanSubject& subject,
                                           const PlanChoice& given,
                                           const PlanMachine& machine,
                                           int64_t memory);

// Returns the plan that needs the least memory.
RankPlan smallest_plan(const PlanSubject& subject,
                       const PlanChoice& given,
                       const PlanMachine& machine);

}  // namespace tenon
