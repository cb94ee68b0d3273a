// SPDX-License-Identifier: Apache-2.0
//
// Looks through the ways to share out a model over a number of ranks for the one that fits into
// memory and takes the least time: degrees of the mesh, stage, recompute, offload. What a step
// computes stays the same.
#pragma once

#include "host/train/plan/rank_plan.hpp"

#include <cstdint>
#include <optional>

namespace tenon {

// The plan with the shortest step of those that need at most `memory` bytes a rank; of equal ones
// that which is nearest to `given`. Nothing if none fits.
std::optional<RankPlan> cheapest_that_fits(const PlanSubject& subject,
                                           const PlanChoice& given,
                                           const PlanMachine& machine,
                                           int64_t memory);

// The plan that needs the least memory.
RankPlan smallest_plan(const PlanSubject& subject,
                       const PlanChoice& given,
                       const PlanMachine& machine);

}  // namespace tenon
