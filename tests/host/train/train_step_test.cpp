// SPDX-License-Identifier: Apache-2.0
#include "host/train/train_step.hpp"

#include <limits>

#include "tests/host/train/loop_rig.hpp"

namespace tenon {
namespace {

// Opens the only window of the run's data.
void open(LoopRig& loop) {
  loop.feed.begin_epoch(0);
  REQUIRE(loop.feed.open_next() == NextWindow::kOpen);
}

// The weight after one step on samples 0 to 7, in so many microbatches of two.
double after_one_step(int64_t microbatches, bool counts_from_batch) {
  RunRig run;
  run.loss.counts_from_batch = counts_from_batch;
  LoopRig loop(run, microbatches);
  open(loop);
  loop.run_step();
  CHECK(loop.state.updates == 1);
  CHECK(loop.state.samples == 2 * microbatches);
  CHECK(loop.state.tokens == 20 * microbatches);
  return run.weight();
}

}  // namespace

TEST_CASE("gradients are normalized over all microbatches of a step", "[train]") {
  // w is 2, the rate 0.5: the step subtracts half of the mean sample.
  CHECK(after_one_step(1, true) == Approx(2 - 0.5 * 0.5));
  CHECK(after_one_step(4, true) == Approx(2 - 0.5 * 3.5));
  CHECK(after_one_step(4, false) == Approx(2 - 0.5 * 3.5));
}

TEST_CASE("by microbatch each one has the same weight, however many items it has", "[train]") {
  for (const Normalize normalize : {Normalize::kItems, Normalize::kMicrobatch}) {
    RunRig run(3);  // microbatches of 2 and 1 samples: {0, 1}, {2}
    run.recipe.train.normalize = normalize;
    LoopRig loop(run, 2);
    open(loop);
    CHECK_FALSE(loop.run_step());
    const double gradient = normalize == Normalize::kItems ? 1 : (0.5 + 2) / 2;
    CHECK(run.weight() == Approx(2 - 0.5 * gradient));
  }
}

TEST_CASE("hooks see the events of a step, in order, and its loss so far", "[train]") {
  RunRig run;
  LoopRig loop(run, 2);
  std::vector<double> losses;
  loop.hook.on_event = [&](const tenon_event& event) {
    if (event.id == TENON_EVENT_AFTER_LOSS) {
      losses.push_back(loop.view.scalar("loss")->item<double>());
    }
  };
  open(loop);
  loop.run_step();
  const std::vector<uint32_t> of_microbatch = {TENON_EVENT_AFTER_DATA,
                                               TENON_EVENT_BEFORE_FORWARD,
                                               TENON_EVENT_AFTER_FORWARD,
                                               TENON_EVENT_BEFORE_LOSS,
                                               TENON_EVENT_AFTER_LOSS,
                                               TENON_EVENT_BEFORE_BACKWARD,
                                               TENON_EVENT_AFTER_BACKWARD};
  std::vector<uint32_t> expected = of_microbatch;
  expected.insert(expected.end(), of_microbatch.begin(), of_microbatch.end());
  expected.push_back(TENON_EVENT_BEFORE_OPTIMIZER_STEP);
  expected.push_back(TENON_EVENT_AFTER_OPTIMIZER_STEP);
  CHECK(loop.hook.seen == expected);
  CHECK(losses == std::vector<double>{2 * 0.5, 2 * 1.5});
}

TEST_CASE("an unwanted update changes nothing, and counts in the means", "[train]") {
  RunRig run;
  LoopRig loop(run);
  open(loop);
  loop.run_step(/*is_wanted=*/false);
  CHECK(run.weight() == 2);
  CHECK(run.descent.num_updates == 0);
  CHECK(loop.state.updates == 0);
  CHECK(loop.view.scalar("applied")->item<double>() == 0);
  CHECK(run.report.metrics.mean("loss") == Approx(1));
}

TEST_CASE("a non-finite step is skipped, and counts in no mean", "[train]") {
  RunRig run;
  run.loss.times = std::numeric_limits<double>::quiet_NaN();
  LoopRig loop(run);
  loop.state.step = 20;
  open(loop);
  loop.run_step();
  CHECK(run.weight() == 2);
  CHECK(loop.finite_check.guard().count().steps == 1);
  CHECK_FALSE(loop.finite_check.guard().count().last_origin.empty());
  CHECK(run.report.metrics.mean("loss") == 0);
  run.loss.times = 1;
  loop.run_step();
  CHECK(run.weight() == Approx(2 - 0.5 * 2.5));
}

}  // namespace tenon
