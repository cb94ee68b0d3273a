// SPDX-License-Identifier: Apache-2.0
#include "host/train/microbatch.hpp"

#include <ATen/Functions.h>

#include "tests/host/train/loop_rig.hpp"

namespace tenon {
namespace {

at::Tensor number(double value) {
  return at::scalar_tensor(value, at::kDouble);
}

}  // namespace

TEST_CASE("seeds divide by the total, and by nothing if there is nothing", "[train]") {
  CHECK(seed_of(3, number(4)).item<double>() == 0.75);
  CHECK(seed_of(3, number(0)).item<double>() == 0);
}

TEST_CASE("counts and the mean loss are those of what has run", "[train]") {
  RunRig run;
  run.allocate();
  std::vector<Microbatch> microbatches(3);
  CHECK_FALSE(count_of(microbatches, 0).defined());
  CHECK_FALSE(mean_loss(microbatches, run.model->losses).defined());
  microbatches[0].counts = {number(2)};
  microbatches[0].sums = {number(10)};
  microbatches[1].counts = {number(3)};
  CHECK(count_of(microbatches, 0).item<double>() == 5);
  CHECK(mean_loss(microbatches, run.model->losses).item<double>() == 5);
  microbatches[1].sums = {number(5)};
  CHECK(mean_loss(microbatches, run.model->losses).item<double>() == 3);
}

}  // namespace tenon
