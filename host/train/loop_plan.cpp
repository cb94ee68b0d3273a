// SPDX-License-Identifier: Apache-2.0
#include "host/train/loop_plan.hpp"

#include "host/error/error.hpp"
#include "host/text/formatted.hpp"

#include <string>

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

[[noreturn]] void refuse_in_backward(const std::string& why) {
  throw Error("recipe.contradiction", "/train/update_in_backward: " + why);
}

// Each gradient is used and freed before the next block's gradients exist.
void check_updates_in_backward(const Recipe& recipe,
                               const LoopPlan& plan,
                               const std::vector<HookProxy>& hooks,
                               const RankRole& role) {
  const TrainRecipe& train = recipe.train;
  if (plan.microbatches_per_step > 1) {
    refuse_in_backward(formatted(
        "a step accumulates the gradients of {} microbatches, which must be kept; use one "
        "microbatch a step, or remove the key",
        plan.microbatches_per_step));
  }
  if (train.clip_grad_norm.has_value()) {
    refuse_in_backward(
        "/train/clip_grad_norm needs the norm of all gradients before the first update; set "
        "clip_grad_value instead, or remove one of the keys");
  }
  if (train.non_finite.policy == NonFinitePolicy::kSkip) {
    refuse_in_backward(
        "/train/non_finite/policy is \"skip\", but a step that turns out to be non-finite is "
        "partly applied; set the policy to \"stop\" or \"ignore\"");
  }
  if (train.precision == "fp16_autocast") {
    refuse_in_backward(
        "/train/precision is \"fp16_autocast\", whose loss scale skips updates; use "
        "\"bf16_autocast\"");
  }
  if (!role.is_alone()) {
    refuse_in_backward(
        formatted("the run has {} ranks, and only a single rank has whole gradients in the "
                  "backward; shard gradients by /parallel/stage 2 or 3 instead",
                  role.num_ranks()));
  }
  if (recipe.parallel.offload || recipe.parallel.reshard_after_forward == true) {
    refuse_in_backward("/parallel shards parameters on a single rank; remove one of the keys");
  }
  if (!plan.counts_ahead) {
    refuse_in_backward(
        "the loss is counted after the forward, so that gradients are scaled after the backward; "
        "use a loss that is counted from the batch");
  }
  for (uint32_t event = 0; event < TENON_NUM_EVENTS; ++event) {
    if (any_writes(hooks, event, TENON_TOUCH_GRADIENTS)) {
      refuse_in_backward("a hook changes gradients, which do not exist after the backward");
    }
  }
  if (any_writes(hooks, TENON_EVENT_BEFORE_OPTIMIZER_STEP, TENON_TOUCH_LR)) {
    refuse_in_backward(
        "a hook sets the learning rate before the optimizer's step, which runs in the backward");
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
  if (recipe.train.update_in_backward) {
    check_updates_in_backward(recipe, plan, hooks, role);
  }
  plan.total_steps = total_steps(recipe.train, lr_scheduler);
  if (lr_scheduler != nullptr) {
    lr_scheduler->factor(0, plan.total_steps);  // checks its options against the run
  }
  return plan;
}

}  // namespace tenon
