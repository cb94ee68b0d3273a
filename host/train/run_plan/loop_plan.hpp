// SPDX-License-Identifier: Apache-2.0
//
// Settings of the loop, resolved from the recipe before anything is allocated.
#pragma once

#include "host/distributed/ranks/rank_role.hpp"
#include "host/hook/hook_list.hpp"
#include "host/plugin/lr_scheduler_proxy.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/objective/loss_set.hpp"
#include "host/train/run_plan/step_schedule.hpp"

#include <cstdint>
#include <vector>

namespace tenon {

struct LoopPlan {
  int64_t microbatches_per_step = 1;
  bool counts_ahead = true;  // losses are counted before the first backward of a step
  uint64_t total_steps = 0;  // length of the schedule; 0 if unknown
  StepSchedule schedule = {};
};

// Errors  hook.unordered_writers; hook.one_rank_writes
// Errors  loss.late_count if the losses cannot be normalized exactly
// Errors  recipe.indivisible; those of check_run_rules
LoopPlan plan_loop(const Recipe& recipe,
                   const LossSet& losses,
                   const std::vector<HookProxy>& hooks,
                   const LrSchedulerProxy* lr_scheduler,
                   const RankRole& role);

}  // namespace tenon
