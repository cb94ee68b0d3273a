// SPDX-License-Identifier: Apache-2.0
#include "host/train/named_metrics.hpp"

#include "host/error/error.hpp"

#include "tests/host/train/loop_rig.hpp"

namespace tenon {
namespace {

// The message of the error; "" if there is none.
std::string checked(const RunRig& run) {
  const auto known =
      evaluation_metrics(run.recipe, run.data->eval_sets, run.model->losses, run.model->metrics);
  try {
    check_named_metrics(run.recipe, known, run.model->losses, run.model->metrics, false);
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
  CHECK(checked(run).empty());
  run.recipe.eval.keep_best.emplace().metric = "eval/lss";
  CHECK_THAT(
      checked(run),
      contains_text("/eval/keep_best/metric: ") && contains_text("did you mean \"eval/loss\"?"));
  run.recipe.eval.keep_best->metric = "eval/loss";
  CHECK(checked(run).empty());
  for (const char* const metric : {"eval/loss", "loss"}) {  // of an evaluation, and of training
    ComponentUse hook;
    hook.options = R"({"metric": ")" + std::string(metric) + R"("})";
    hook.pointer = "/hooks/0";
    run.recipe.hooks = {hook};
    CHECK(checked(run).empty());
  }
  run.recipe.hooks[0].options = R"({"metric": "eval/auc"})";
  CHECK_THAT(checked(run), contains_text("/hooks/0/options/metric: "));
}

}  // namespace tenon
