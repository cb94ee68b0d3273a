// SPDX-License-Identifier: Apache-2.0
#include "host/train/named_metrics.hpp"

#include "host/error/error.hpp"

#include "tests/host/train/loop_rig.hpp"

namespace tenon {
namespace {

// The message of the error; "" if there is none.
std::string checked(const RunRig& run, const LoopRig& loop) {
  const auto known = evaluation_metrics(
      run.recipe, loop.parts.eval_sets, loop.parts.losses, loop.parts.metric_set);
  try {
    check_named_metrics(run.recipe, known, loop.parts.losses, loop.parts.metric_set, false);
    return "";
  } catch (const Error& error) {
    CHECK(error.id() == "metric.unknown");
    return error.message();
  }
}

}  // namespace

TEST_CASE("each key that names a metric is checked against what evaluations give", "[train]") {
  RunRig run;
  run.has_eval = true;
  LoopRig loop(run);
  CHECK(checked(run, loop).empty());
  run.recipe.eval.keep_best.emplace().metric = "eval/lss";
  CHECK_THAT(
      checked(run, loop),
      contains_text("/eval/keep_best/metric: ") && contains_text("did you mean \"eval/loss\"?"));
  run.recipe.eval.keep_best->metric = "eval/loss";
  CHECK(checked(run, loop).empty());
  for (const char* const metric : {"eval/loss", "loss"}) {  // of an evaluation, and of training
    ComponentUse hook;
    hook.options = R"({"metric": ")" + std::string(metric) + R"("})";
    hook.pointer = "/hooks/0";
    run.recipe.hooks = {hook};
    CHECK(checked(run, loop).empty());
  }
  run.recipe.hooks[0].options = R"({"metric": "eval/auc"})";
  CHECK_THAT(checked(run, loop), contains_text("/hooks/0/options/metric: "));
}

}  // namespace tenon
