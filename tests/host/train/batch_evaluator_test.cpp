// SPDX-License-Identifier: Apache-2.0
#include "host/train/batch_evaluator.hpp"

#include "tests/host/train/loop_rig.hpp"

namespace tenon {
namespace {

BatchEvaluator evaluator_of(LoopRig& loop) {
  return BatchEvaluator({.state = loop.state,
                         .collective = loop.parts.collective,
                         .model = loop.parts.model,
                         .metric_set = loop.parts.metric_set,
                         .forward_pass = loop.step.forward_pass(),
                         .events = loop.events,
                         .step = loop.view.step(),
                         .stop = loop.stop});
}

}  // namespace

TEST_CASE("a trial of the first batch fires no event and moves no data", "[train]") {
  RunRig run;
  run.has_eval = true;
  LoopRig loop(run);
  BatchEvaluator batches = evaluator_of(loop);
  std::set<std::string> names;
  CHECK(batches.try_first_batch(loop.parts.eval_sets[0], names));
  CHECK(names.empty());
  CHECK(loop.hook.seen.empty());
  CHECK_FALSE(run.eval_data->epoch().has_value());
  // In the middle of an epoch, the set stays where it is.
  run.eval_data->begin_epoch(0);
  REQUIRE(run.eval_data->next_window());
  run.eval_data->loader().next();
  CHECK(batches.try_first_batch(loop.parts.eval_sets[0], names));
  CHECK(samples_of(*run.eval_data->loader().next()) == std::vector<int64_t>{2, 3});
}

TEST_CASE("an error of a batch cuts the evaluation, and names set, batch and sample", "[train]") {
  RunRig run;
  run.has_eval = true;
  LoopRig loop(run);
  BatchEvaluator batches = evaluator_of(loop);
  run.eval_data->begin_epoch(0);
  REQUIRE(run.eval_data->next_window());
  run.loss.fails = true;
  EvaluationSums sums(1);
  CHECK_FALSE(batches.evaluate(*run.eval_data, "eval/", sums));
  CHECK(batches.has_failed());
  CHECK(sums.microbatch == 1);
  try {
    batches.rethrow();
    FAIL("the error is kept");
  } catch (const Error& error) {
    CHECK_THAT(error.what(),
               contains_text("evaluation on eval (") &&
                   contains_text(", batch 1, sample 0 (counted from 0): "));
  }
}

}  // namespace tenon
