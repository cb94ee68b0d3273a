// SPDX-License-Identifier: Apache-2.0
#include "host/train/evaluator.hpp"

#include "host/error/error.hpp"

#include <csignal>

#include "tests/host/train/loop_rig.hpp"

namespace tenon {

TEST_CASE("an evaluation gives the mean over its set, and trains nothing", "[train]") {
  RunRig run;
  run.has_eval = true;
  LoopRig loop(run);
  loop.state.step = 3;
  loop.evaluator.evaluate();
  CHECK(run.report.metrics.last("eval/loss") == Approx(2 * 1.5));  // samples 0 to 3
  CHECK(loop.evaluator.last_metrics().at("eval/loss") == Approx(3));
  CHECK(loop.evaluator.evaluated_step() == 3);
  CHECK(loop.hook.count(TENON_EVENT_BEFORE_EVALUATE) == 1);
  CHECK(loop.hook.count(TENON_EVENT_AFTER_EVALUATE) == 1);
  CHECK(loop.hook.count(TENON_EVENT_AFTER_DATA) == 2);
  CHECK(loop.hook.count(TENON_EVENT_BEFORE_BACKWARD) == 0);
  CHECK(loop.view.step().batch == nullptr);
  CHECK(run.weight() == 2);
  loop.evaluator.evaluate();  // the same parameters
  CHECK(loop.hook.count(TENON_EVENT_BEFORE_EVALUATE) == 1);
  ++loop.state.step;
  loop.evaluator.evaluate();
  CHECK(loop.hook.count(TENON_EVENT_BEFORE_EVALUATE) == 2);
}

TEST_CASE("schedules say after which step, window and epoch", "[train]") {
  RunRig run;
  run.has_eval = true;
  run.recipe.eval.every.steps = 2;
  run.recipe.eval.every.windows = 3;
  run.recipe.eval.every.epochs = 1;
  LoopRig loop(run);
  loop.state = {.step = 3, .epochs = 1, .windows = 4};
  CHECK_FALSE(loop.evaluator.is_due(RunBoundary::kStep));
  CHECK_FALSE(loop.evaluator.is_due(RunBoundary::kWindow));
  CHECK(loop.evaluator.is_due(RunBoundary::kEpoch));
  CHECK_FALSE(loop.evaluator.is_due(RunBoundary::kStart));
  loop.state = {.step = 4, .epochs = 1, .windows = 3};
  CHECK(loop.evaluator.is_due(RunBoundary::kStep));
  CHECK(loop.evaluator.is_due(RunBoundary::kWindow));
  run.recipe.eval = {};
  CHECK_FALSE(loop.evaluator.is_due(RunBoundary::kEpoch));
}

TEST_CASE("the next window is evaluated before it is trained on, and read again", "[train]") {
  RunRig run(4, {make_window(0, "mon", 4), make_window(1, "tue", 4)});
  LoopRig loop(run);
  loop.feed.begin_epoch(0);
  REQUIRE(loop.feed.open_next() == NextWindow::kOpen);
  run.recipe.eval.next_window = true;
  CHECK_FALSE(loop.evaluator.evaluate_before_window(/*is_resumed=*/true, "mon"));
  CHECK(loop.hook.count(TENON_EVENT_BEFORE_EVALUATE) == 0);
  CHECK(loop.evaluator.evaluate_before_window(/*is_resumed=*/false, "mon"));
  CHECK(run.report.metrics.last("next/loss") == Approx(3));
  CHECK(run.report.metrics.last("next/loss/run") == Approx(3));
  CHECK(samples_of(loop.feed.take_microbatches()[0].batch) == std::vector<int64_t>{0, 1});
}

TEST_CASE("a signal cuts an evaluation, which the resumed run makes", "[train]") {
  RunRig run;
  run.has_eval = true;
  const SignalWatch signals;
  LoopRig loop(run);
  StopConditions stop(run.recipe.train, loop.state, run.ranks.all(), &signals);
  Evaluator evaluator(loop.run,
                      loop.state,
                      loop.events,
                      loop.view,
                      loop.requests,
                      stop,
                      loop.log,
                      loop.step.forward_pass());
  loop.state.step = 5;
  loop.hook.on_event = [](const tenon_event& event) {
    if (event.id == TENON_EVENT_AFTER_DATA) {
      raise(SIGTERM);
    }
  };
  evaluator.evaluate();
  CHECK(stop.is_interrupted_run());
  CHECK(loop.hook.count(TENON_EVENT_AFTER_DATA) == 1);  // of two batches
  CHECK(loop.hook.count(TENON_EVENT_AFTER_EVALUATE) == 0);
  CHECK_FALSE(evaluator.evaluated_step().has_value());
  StateTree tree;
  evaluator.put_fields(tree, "run");
  CHECK(tree.get_int("run/due/all") == 1);
  CHECK(tree.get_int("run/evaluated") == 0);

  loop.hook.on_event = {};
  loop.evaluator.get_fields(tree, "run");
  loop.evaluator.evaluate_missed("");
  CHECK(loop.evaluator.evaluated_step() == 5);
  StateTree later;
  loop.evaluator.put_fields(later, "run");
  CHECK(later.get_int("run/due/all") == 0);
  CHECK(later.get_int("run/evaluated_step") == 5);
  CHECK(later.get_bytes("run/last_figures") == "eval/loss 0x1.8p+1\n");
}

TEST_CASE("the best parameters come back at the end", "[train]") {
  RunRig run;
  run.has_eval = true;
  run.recipe.eval.keep_best.emplace().metric = "eval/loss";
  LoopRig loop(run);
  Evaluator& evaluator = loop.evaluator;
  for (const double weight : {4.0, 1.0, 3.0}) {
    ++loop.state.step;
    run.set_weight(weight);
    evaluator.evaluate();
  }
  CHECK(evaluator.restore_best());
  CHECK(run.weight() == 1);
  REQUIRE(evaluator.best().has_value());
  CHECK(evaluator.best()->step == 2);
  CHECK(evaluator.best()->value == Approx(1.5));
}

}  // namespace tenon
