// SPDX-License-Identifier: Apache-2.0
#include "host/train/run_plan/loop_plan.hpp"

#include "host/error/error.hpp"

#include "tests/host/train/loop_rig.hpp"

namespace tenon {
namespace {

std::string error_id(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.id();
  }
  return "";
}

}  // namespace

TEST_CASE("losses are counted ahead, unless they or a hook stand against it", "[train]") {
  RunRig run;
  run.allocate();
  RecordingHook hook{.writes = TENON_TOUCH_BATCH};
  const std::vector<HookProxy> writers = hook.proxies();
  Recipe recipe;
  recipe.train.steps = 9;
  LoopPlan plan = plan_loop(recipe, run.model->losses, {}, nullptr, {});
  CHECK(plan.counts_ahead);
  CHECK(plan.microbatches_per_step == 1);
  CHECK(plan.total_steps == 9);
  CHECK(plan_loop(recipe, run.model->losses, writers, nullptr, {}).counts_ahead);
  recipe.train.gradient_accumulation = 4;
  plan = plan_loop(recipe, run.model->losses, writers, nullptr, {});
  CHECK_FALSE(plan.counts_ahead);
  CHECK(plan.microbatches_per_step == 4);
  recipe.train.normalize = Normalize::kMicrobatch;
  CHECK(error_id([&] { plan_loop(recipe, run.model->losses, writers, nullptr, {}); }) ==
        "loss.late_count");
  recipe.train.total_steps = 100;
  CHECK(plan_loop(recipe, run.model->losses, {}, nullptr, {}).total_steps == 100);
}

TEST_CASE("several losses cannot be counted late", "[train]") {
  RunRig run;
  run.loss.counts_from_batch = false;
  run.allocate();
  SumLoss other;
  std::vector<NamedLoss> named;
  named.push_back({.name = "a", .weight = 1, .inputs = {}, .proxy = run.loss.proxy()});
  named.push_back({.name = "b", .weight = 1, .inputs = {}, .proxy = other.proxy()});
  const LossSet losses(std::move(named), run.plan.model.graph, "made", RunRig::base());
  CHECK(error_id([&] { plan_loop(Recipe(), losses, {}, nullptr, {}); }) == "loss.late_count");
  CHECK_FALSE(plan_loop(Recipe(), run.model->losses, {}, nullptr, {}).counts_ahead);
}

}  // namespace tenon
