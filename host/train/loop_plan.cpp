// SPDX-License-Identifier: Apache-2.0
#include "host/train/loop_plan.hpp"

#include "host/error/error.hpp"

namespace tenon {
namespace {

void check_late_counts(const Recipe& recipe, const LossSet& losses) {
  if (losses.size() > 1) {
    throw Error("loss.late_count",
                "each of several losses is divided by a count that must be known before the first "
                "backward; here one is counted after the forward, or a hook changes batches while "
                "gradients are accumulated. Use one loss, or no accumulation");
  }
  if (recipe.train.normalize == Normalize::kMicrobatch) {
    throw Error("loss.late_count",
                "\"normalize\": \"microbatch\" divides each microbatch by its count, which must be "
                "known before its backward; this loss is counted after the forward, or a hook "
                "changes batches while gradients are accumulated");
  }
}

uint64_t total_steps(const TrainRecipe& train, const LrSchedulerProxy* lr_scheduler) {
  if (train.total_steps.has_value()) {
    return static_cast<uint64_t>(*train.total_steps);
  }
  if (train.steps.has_value()) {
    return static_cast<uint64_t>(*train.steps);
  }
  if (lr_scheduler != nullptr && lr_scheduler->needs_total()) {
    throw Error("recipe.no_total",
                "/lr_scheduler: the schedule needs the length of the run in steps, and the recipe "
                "gives it in another unit; set /train/total_steps");
  }
  return 0;
}

}  // namespace

LoopPlan plan_loop(const Recipe& recipe,
                   const LossSet& losses,
                   const std::vector<HookProxy>& hooks,
                   const LrSchedulerProxy* lr_scheduler,
                   uint32_t world_size) {
  check_writers(hooks);
  check_ranks(hooks, world_size);
  LoopPlan plan;
  plan.microbatches_per_step = microbatches_per_step(recipe, world_size);
  // A count taken before a hook changes the batch would be wrong. If a step has one microbatch, it
  // is counted after hooks.
  const bool batch_is_written = any_writes(hooks, TENON_EVENT_AFTER_DATA, TENON_TOUCH_BATCH);
  plan.counts_ahead =
      losses.count_from_batch() && (plan.microbatches_per_step == 1 || !batch_is_written);
  if (!plan.counts_ahead) {
    check_late_counts(recipe, losses);
  }
  plan.total_steps = total_steps(recipe.train, lr_scheduler);
  if (lr_scheduler != nullptr) {
    lr_scheduler->factor(0, plan.total_steps);  // checks its options against the run
  }
  return plan;
}

}  // namespace tenon
