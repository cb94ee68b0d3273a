// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/flop_count.hpp"

#include <ATen/Functions.h>

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("matrix products count, on any device, and other operators do not", "[model]") {
  FlopCount flops;
  const at::Tensor a = at::ones({3, 5});
  const at::Tensor b = at::ones({5, 7});
  (void)at::mm(a, b);
  CHECK(flops.take() == 2.0 * 3 * 5 * 7);
  (void)at::addmm(at::ones({7}), a, b);
  CHECK(flops.take() == 2.0 * 3 * 5 * 7);
  (void)at::mm(a.to(at::kMeta), b.to(at::kMeta));
  CHECK(flops.take() == 2.0 * 3 * 5 * 7);
  (void)at::exp(a);
  CHECK(flops.take() == 0);
}

TEST_CASE("a convolution counts each position of its output", "[model]") {
  FlopCount flops;
  (void)at::conv2d(at::ones({2, 3, 8, 8}), at::ones({4, 3, 3, 3}));
  CHECK(flops.take() == 2.0 * 2 * 6 * 6 * 4 * 3 * 3 * 3);
}

TEST_CASE("nothing counts after the object is gone", "[model]") {
  { FlopCount gone; }
  (void)at::mm(at::ones({3, 5}), at::ones({5, 7}));
  FlopCount flops;
  CHECK(flops.take() == 0);
}

}  // namespace tenon
