// SPDX-License-Identifier: Apache-2.0
#include "host/train/non_finite_origin.hpp"

#include <limits>

#include "tests/host/train/loop_rig.hpp"

namespace tenon {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();

// What is found after a step on one sample, whose loss is multiplied with this.
NonFiniteOrigin origin_of(double weight, double times) {
  RunRig run;
  run.loss.times = times;
  run.allocate();
  run.set_weight(weight);
  Microbatch microbatch;
  microbatch.batch.schema = sample_schema();
  microbatch.batch.fields = {at::ones({1}, at::kLong)};
  microbatch.batch.samples = 1;
  const CallPoint point{1, 0, true};
  run.model->runner.forward(run.model->state(), microbatch.batch, point);
  microbatch.counts = run.model->losses.count(microbatch.batch, point);
  microbatch.sums =
      run.model->losses.compute(run.model->state(), microbatch.batch, point, microbatch.calls);
  run.model->losses.backward(
      run.model->state(), point, microbatch.calls, {at::scalar_tensor(1.0, at::kDouble)});
  run.model->runner.backward(run.model->state(), nullptr);
  return find_non_finite_origin(run.model->runner,
                                run.model->state(),
                                run.model->parameters,
                                run.model->losses,
                                {{&microbatch.batch, &microbatch.sums, &microbatch.counts}},
                                1,
                                OriginSearch::kUntilFound);
}

}  // namespace

TEST_CASE("the first non-finite place of a step is named", "[train]") {
  const NonFiniteOrigin in_parameter = origin_of(kNan, 1);
  CHECK(in_parameter.distance == OriginDistance::kForward);
  CHECK_THAT(in_parameter.text,
             contains_text("parameter 'p0' of block 'block0' holds 1 non-finite value"));
  const NonFiniteOrigin in_loss = origin_of(2, kNan);
  CHECK(in_loss.distance == OriginDistance::kForward);
  CHECK_THAT(in_loss.text, contains_text("loss 'sum'"));
  CHECK(origin_of(2, 1).distance == OriginDistance::kUnknown);
}

TEST_CASE("a step that is over is known by the norms of its gradients", "[train]") {
  RunRig run;
  run.allocate();
  const NonFiniteOrigin found =
      non_finite_gradient(run.plan.model.graph, {0}, at::full({1}, kNan, at::kDouble));
  CHECK(found.distance == OriginDistance::kGradient);
  CHECK_THAT(found.text, contains_text("1 of 1") && contains_text("'p0'"));
  CHECK(non_finite_gradient(run.plan.model.graph, {0}, at::ones({1}, at::kDouble)).distance ==
        OriginDistance::kUnknown);
}

}  // namespace tenon
