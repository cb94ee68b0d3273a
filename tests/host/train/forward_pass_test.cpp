// SPDX-License-Identifier: Apache-2.0
#include "host/train/forward_pass.hpp"

#include "host/data/batch_builder.hpp"

#include "tests/host/train/loop_rig.hpp"

namespace tenon {
namespace {

Microbatch microbatch_of(const std::vector<int64_t>& samples) {
  Microbatch microbatch;
  microbatch.batch.schema = sample_schema();
  microbatch.batch.fields = {at::tensor(samples)};
  microbatch.batch.samples = static_cast<int64_t>(samples.size());
  return microbatch;
}

}  // namespace

TEST_CASE("training and evaluation compute the same sums and counts", "[train]") {
  RunRig run;
  LoopRig loop(run);
  ForwardPass& forward = loop.step.forward_pass();
  for (const bool is_train : {true, false}) {
    Microbatch microbatch = microbatch_of({3, 4});
    microbatch.state = &run.model->state();
    const CallPoint point{1, 0, is_train};
    int num_calls = 0;
    forward.run_model(microbatch, point);
    forward.run_losses(microbatch, point, [&] { ++num_calls; });
    REQUIRE(microbatch.sums.size() == 1);
    CHECK(microbatch.sums[0].item<double>() == 2 * 7);
    CHECK(microbatch.counts[0].item<double>() == 2);
    CHECK(num_calls == 1);
    run.model->runner.clear(run.model->state());
  }
  CHECK(loop.hook.seen == std::vector<uint32_t>{TENON_EVENT_BEFORE_FORWARD,
                                                TENON_EVENT_AFTER_FORWARD,
                                                TENON_EVENT_BEFORE_LOSS,
                                                TENON_EVENT_AFTER_LOSS,
                                                TENON_EVENT_BEFORE_FORWARD,
                                                TENON_EVENT_AFTER_FORWARD,
                                                TENON_EVENT_BEFORE_LOSS,
                                                TENON_EVENT_AFTER_LOSS});
  CHECK(run.model_functions.num_forwards == 2);
}

TEST_CASE("a batch without samples computes nothing, and fires the same events", "[train]") {
  RunRig run;
  LoopRig loop(run);
  Microbatch microbatch{.batch = empty_batch(sample_schema()), .state = &run.model->state()};
  const CallPoint point{1, 0, true};
  loop.step.forward_pass().run_model(microbatch, point);
  loop.step.forward_pass().run_losses(microbatch, point, [] { FAIL("there is no loss"); });
  CHECK(microbatch.sums.empty());
  CHECK(run.model_functions.num_forwards == 0);
  CHECK(loop.hook.seen.size() == 4);
}

TEST_CASE("counts that are there are not taken again", "[train]") {
  RunRig run;
  LoopRig loop(run);
  Microbatch microbatch = microbatch_of({3, 4});
  microbatch.state = &run.model->state();
  microbatch.counts = {at::scalar_tensor(5.0, at::kDouble)};
  const CallPoint point{1, 0, false};
  loop.step.forward_pass().run_model(microbatch, point);
  loop.step.forward_pass().run_losses(microbatch, point, [] {});
  CHECK(microbatch.counts[0].item<double>() == 5);
}

TEST_CASE("metrics read whole outputs: an evaluation with some has no chunks", "[train]") {
  RunRig run;
  LoopRig loop(run);
  const ForwardPass& forward = loop.step.forward_pass();
  CHECK_FALSE(forward.is_chunked({1, 0, true}));
  run.recipe.train.loss_chunk = 2;
  CHECK(forward.is_chunked({1, 0, true}));
  CHECK(forward.is_chunked({1, 0, false}));  // there are no metrics
}

}  // namespace tenon
