// SPDX-License-Identifier: Apache-2.0
#include "host/train/step_log.hpp"

#include "tests/host/train/loop_rig.hpp"

namespace tenon {
namespace {

std::vector<Microbatch> microbatch_of(double sum, double count) {
  std::vector<Microbatch> microbatches(1);
  microbatches[0].sums = {at::scalar_tensor(sum, at::kDouble)};
  microbatches[0].counts = {at::scalar_tensor(count, at::kDouble)};
  return microbatches;
}

}  // namespace

TEST_CASE("records come every N steps, and with the first", "[train]") {
  RunRig run;
  run.recipe.train.log_every = 3;
  LoopRig loop(run);
  std::vector<uint64_t> due;
  for (loop.state.step = 1; loop.state.step <= 7; ++loop.state.step) {
    if (loop.log.is_due()) {
      due.push_back(loop.state.step);
    }
  }
  CHECK(due == std::vector<uint64_t>{1, 3, 6});
  run.recipe.train.log_every = 0;
  loop.state.step = 6;
  CHECK_FALSE(loop.log.is_due());
}

TEST_CASE("a record has the mean loss of the steps since the last one", "[train]") {
  RunRig run;
  LoopRig loop(run);
  loop.state = {.step = 2, .samples = 10, .tokens = 40};
  loop.log.add_losses(microbatch_of(6, 2), {});
  loop.log.add_losses(microbatch_of(4, 8), {});
  loop.log.log(1);
  CHECK(run.report.metrics.last("loss") == Approx(1));
  CHECK(run.report.metrics.last("roll_backs") == 1);
  CHECK(run.report.metrics.last("samples_per_second").value() > 0);
  CHECK(run.report.metrics.last("tokens_per_second").value() > 0);
  CHECK(run.report.metrics.last("data_wait_seconds") == 0);
  CHECK_FALSE(run.report.metrics.last("non_finite_steps").has_value());
  CHECK(run.report.sinks.num_of_step(2) == 1);
  CHECK(loop.log.has_logged());
  CHECK(loop.log.last_metrics().at("loss") == Approx(1));
  ++loop.state.step;
  CHECK_FALSE(loop.log.has_logged());
  loop.log.add_data_wait(std::chrono::hours(1));
  loop.log.log(0);
  CHECK(run.report.metrics.last("data_wait_seconds") == Approx(3600));
}

TEST_CASE("a loss that a device leaves out counts in no mean", "[train]") {
  RunRig run;
  LoopRig loop(run);
  loop.state.step = 1;
  const at::Tensor bad = at::scalar_tensor(1, at::kFloat);
  const at::Tensor good = at::scalar_tensor(0, at::kFloat);
  loop.log.add_losses(microbatch_of(6, 2), good);
  loop.log.add_losses(microbatch_of(1e9, 1), bad);
  loop.log.log(0);
  CHECK(run.report.metrics.last("loss") == Approx(3));
}

TEST_CASE("what is logged, and what is not yet, is saved", "[train]") {
  RunRig run;
  LoopRig loop(run);
  loop.state = {.step = 5, .samples = 50, .tokens = 500};
  loop.log.log(0);
  loop.log.add_losses(microbatch_of(6, 2), {});
  StateTree tree;
  loop.log.put_fields(tree, "run");
  CHECK(tree.get_int("run/logged_step") == 5);
  CHECK(tree.get_int("run/logged_samples") == 50);
  CHECK(tree.get_int("run/logged_tokens") == 500);
  CHECK(tree.get_int("run/has_loss_to_log") == 1);
}

}  // namespace tenon
