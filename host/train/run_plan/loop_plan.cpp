// SPDX-License-Identifier: Apache-2.0
#include "host/train/run_plan/loop_plan.hpp"

#include "host/error/error.hpp"
#include "host/recipe/run_rules.hpp"

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

RunFacts facts_of(const LoopPlan& plan,
                  const std::vector<HookProxy>& hooks,
                  const LrSchedulerProxy* lr_scheduler,
                  const RankRole& role) {
  RunFacts facts{
      .microbatches_per_step = plan.microbatches_per_step,
      .num_ranks = role.num_ranks(),
      .counts_ahead = plan.counts_ahead,
      .hook_sets_late_lr = any_writes(hooks, TENON_EVENT_BEFORE_OPTIMIZER_STEP, TENON_TOUCH_LR),
      .schedule_needs_total = lr_scheduler != nullptr && lr_scheduler->needs_total()};
  for (uint32_t event = 0; event < TENON_NUM_EVENTS; ++event) {
    facts.hook_writes_gradients =
        facts.hook_writes_gradients || any_writes(hooks, event, TENON_TOUCH_GRADIENTS);
  }
  return facts;
}

}  // namespace

LoopPlan plan_loop(const Recipe& recipe,
                   const LossSet& losses,
                   const std::vector<HookProxy>& hooks,
                   const LrSchedulerProxy* lr_scheduler,
                   const RankRole& role) {
  check_writers(hooks);
  check_ranks(hooks, role.num_ranks());
  LoopPlan plan;
  plan.microbatches_per_step = microbatches_per_step(recipe, role.samples().count);
  // A count taken before a hook changes the batch would be wrong. If a step has one microbatch, it
  // is counted after hooks.
  const bool batch_is_written = any_writes(hooks, TENON_EVENT_AFTER_DATA, TENON_TOUCH_BATCH);
  plan.counts_ahead =
      losses.count_from_batch() && (plan.microbatches_per_step == 1 || !batch_is_written);
  if (!plan.counts_ahead) {
    check_late_counts(recipe, losses);
  }
  check_run_rules(recipe, facts_of(plan, hooks, lr_scheduler, role));
  plan.total_steps =
      static_cast<uint64_t>(recipe.train.total_steps.value_or(recipe.train.steps.value_or(0)));
  if (lr_scheduler != nullptr) {
    lr_scheduler->factor(0, plan.total_steps);  // checks its options against the run
  }
  return plan;
}

}  // namespace tenon
