// SPDX-License-Identifier: Apache-2.0
#include "host/train/trainer.hpp"

#include <limits>

#include "tests/host/train/loop_rig.hpp"

namespace tenon {
namespace {

// Runs the rig's recipe with a hook.
Outcome run_with(RunRig& run, RecordingHook& hook) {
  run.plan.observers.hooks = hook.proxies();
  return Trainer(run.allocate()).run();
}

std::vector<uint32_t> without(std::vector<uint32_t> events, const std::vector<uint32_t>& excluded) {
  std::erase_if(events, [&](uint32_t event) { return std::ranges::count(excluded, event) > 0; });
  return events;
}

}  // namespace

TEST_CASE("a run fires the events of its epochs, windows and steps, outermost first", "[train]") {
  RunRig run(4);
  run.recipe.train.steps = 2;
  RecordingHook hook;
  const Outcome outcome = run_with(run, hook);
  CHECK(outcome.code == ExitCode::kDone);
  CHECK(outcome.reason == "reached 2 steps");
  CHECK(outcome.state.updates == 2);
  CHECK(outcome.last_metrics.contains("loss"));
  CHECK(run.weight() == Approx(2 - 0.5 * 0.5 - 0.5 * 2.5));
  const std::vector<uint32_t> of_step = {TENON_EVENT_AFTER_DATA,
                                         TENON_EVENT_BEFORE_FORWARD,
                                         TENON_EVENT_AFTER_FORWARD,
                                         TENON_EVENT_BEFORE_LOSS,
                                         TENON_EVENT_AFTER_LOSS,
                                         TENON_EVENT_BEFORE_BACKWARD,
                                         TENON_EVENT_AFTER_BACKWARD,
                                         TENON_EVENT_BEFORE_OPTIMIZER_STEP,
                                         TENON_EVENT_AFTER_OPTIMIZER_STEP};
  CHECK(without(hook.seen, of_step) == std::vector<uint32_t>{TENON_EVENT_BEFORE_INIT,
                                                             TENON_EVENT_AFTER_INIT,
                                                             TENON_EVENT_START,
                                                             TENON_EVENT_BEFORE_EPOCH,
                                                             TENON_EVENT_BEFORE_WINDOW,
                                                             TENON_EVENT_BEFORE_STEP,
                                                             TENON_EVENT_AFTER_STEP,
                                                             TENON_EVENT_BEFORE_STEP,
                                                             TENON_EVENT_AFTER_STEP,
                                                             TENON_EVENT_OUT_OF_DATA,
                                                             TENON_EVENT_AFTER_WINDOW,
                                                             TENON_EVENT_AFTER_EPOCH,
                                                             TENON_EVENT_END});
}

TEST_CASE("a resumed run ends with the same parameters, from every boundary", "[train]") {
  RunRig whole(6);
  whole.recipe.train.steps = 7;  // in epochs of three steps
  RecordingHook hook;
  std::vector<StateTree> states;
  whole.request.on_boundary = [&](RunBoundary, Trainer& trainer) {
    trainer.snapshot(states.emplace_back());
  };
  run_with(whole, hook);
  REQUIRE(states.size() > 7);
  for (const StateTree& state : states) {
    RunRig resumed(6);
    resumed.recipe.train.steps = 7;
    resumed.request.start_from = &state;
    const Outcome outcome = run_with(resumed, hook);
    CHECK(outcome.error_id.empty());
    CHECK(outcome.state.step == 7);
    CHECK(resumed.weight() == whole.weight());
  }
}

TEST_CASE("windows end a run after their number, and cut steps are no window", "[train]") {
  RunRig run(2, {make_window(0, "mon", 6), make_window(1, "tue", 6)});
  run.recipe.train.steps.reset();
  run.recipe.train.windows = 2;
  run.recipe.train.steps_per_window = 1;
  RecordingHook hook;
  const Outcome outcome = run_with(run, hook);
  CHECK(outcome.reason == "reached 2 windows");
  CHECK(outcome.state.step == 2);
  CHECK(outcome.windows.last == "tue");
  CHECK(hook.count(TENON_EVENT_WINDOW_MODE) == 1);
}

TEST_CASE("an error ends the run in order, and hooks hear of it", "[train]") {
  RunRig run;
  run.loss.times = std::numeric_limits<double>::quiet_NaN();
  run.recipe.train.non_finite.policy = NonFinitePolicy::kStop;
  RecordingHook hook;
  const Outcome outcome = run_with(run, hook);
  CHECK(outcome.code == ExitCode::kFailed);  // as on_failure says
  CHECK(outcome.error_id == "train.non_finite");
  CHECK(outcome.non_finite.steps == 1);
  CHECK(run.weight() == 2);
  CHECK(hook.count(TENON_EVENT_ON_ERROR) == 1);
  CHECK(hook.seen.back() == TENON_EVENT_END);
}

TEST_CASE("a hook rolls the run back, which goes on with the next data", "[train]") {
  RunRig run(20);
  run.recipe.train.steps = 5;
  run.recipe.checkpoint.emplace();
  run.recipe.checkpoint->every.steps = 1;
  run.recipe.checkpoint->on_spike = OnSpike::kRollBack;
  run.recipe.checkpoint->max_roll_backs = 1;
  RecordingHook hook;
  bool is_first = true;
  hook.on_event = [&](const tenon_event& event) {
    if (event.id == TENON_EVENT_BEFORE_STEP && event.step == 3 && std::exchange(is_first, false)) {
      event.api->roll_back(event.run, 2, "loss is 1e9");
    }
  };
  const Outcome outcome = run_with(run, hook);
  CHECK(outcome.error_id.empty());
  REQUIRE(outcome.roll_backs.size() == 1);
  CHECK(outcome.roll_backs[0].step == 3);
  CHECK(outcome.roll_backs[0].to == 1);
  CHECK(outcome.state.step == 5);
  // Samples 2 to 5, of steps 2 and 3, are forgotten.
  CHECK(run.weight() == Approx(2 - 0.5 * (0.5 + 6.5 + 8.5 + 10.5 + 12.5)));
}

TEST_CASE("an evaluation alone trains nothing", "[train]") {
  RunRig run;
  run.request.is_eval_only = true;
  run.has_eval = true;
  RecordingHook hook;
  const Outcome outcome = run_with(run, hook);
  CHECK(outcome.reason == "evaluated the initial parameters");
  CHECK(outcome.last_metrics.at("eval/loss") == Approx(3));
  CHECK(outcome.state.step == 0);
}

TEST_CASE("an evaluation set is tried before the first step, without events", "[train]") {
  RunRig run;
  run.has_eval = true;
  run.recipe.eval.every.steps = 2;
  run.loss.fails = true;
  RecordingHook hook;
  const Outcome outcome = run_with(run, hook);
  CHECK(outcome.error_id == "plugin.failed");
  CHECK(outcome.state.step == 0);
  CHECK_THAT(outcome.reason,
             contains_text("evaluation on eval (") && contains_text("batch 1, sample 0 ") &&
                 contains_text("the label 7 is out of range"));
  CHECK(hook.count(TENON_EVENT_BEFORE_FORWARD) == 0);
  CHECK(hook.count(TENON_EVENT_BEFORE_EVALUATE) == 0);
}

TEST_CASE("what is trained is saved before an evaluation ends the run", "[train]") {
  RunRig run;
  run.has_eval = true;
  run.recipe.eval.every.steps = 2;
  run.recipe.checkpoint.emplace();
  run.recipe.checkpoint->every.steps = 100;
  RecordingHook hook;
  hook.on_event = [&](const tenon_event& event) {
    run.loss.fails = event.id == TENON_EVENT_BEFORE_EVALUATE || (run.loss.fails && event.step == 2);
  };
  const Outcome outcome = run_with(run, hook);
  CHECK(outcome.error_id == "plugin.failed");
  CHECK(outcome.state.step == 2);
  CHECK(run.storage->list() == std::vector<std::string>{"step-00000002_tokens-40_epoch-0"});
}

}  // namespace tenon
