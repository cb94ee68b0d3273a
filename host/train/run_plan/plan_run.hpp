// SPDX-License-Identifier: Apache-2.0
//
// Makes the plan of a run from its recipe.
// Invariant: finds all errors that can be found without allocating.
// Threads: [main].
#pragma once

#include "host/train/run_plan/run_plan.hpp"

#include <memory>

namespace tenon {

// Creates the components of a recipe and plans a run with them. Both arguments are borrowed.
//
// Errors  plugin.*; recipe.*; data.*; loss.*; table.*; optim.*; weights.*; hook.*;
//         checkpoint.unmatched_exclude; errors of components
std::unique_ptr<const RunPlan> plan_run(const PlanContext& context, const RunRequest& request);

}  // namespace tenon
