// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/flat_pass.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <limits>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

at::Tensor waves(int64_t n, at::ScalarType dtype) {
  return at::sin(at::arange(n, at::kDouble)).to(dtype);
}

}  // namespace

TEST_CASE("a sum of squares is that of fp64, for each length and dtype", "[tensor]") {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t n : {0, 1, 31, 32, 33, 100, 32768, 32769, 300001}) {
      const at::Tensor flat = waves(n, dtype);
      INFO(c10::toString(dtype) << ", " << n);
      CHECK(square_sum(flat) ==
            Approx(flat.to(at::kDouble).square().sum().item<double>()).epsilon(1e-13));
    }
  }
}

TEST_CASE("a sum of squares has the same bits with any number of threads", "[tensor]") {
  const at::Tensor flat = waves(1'000'003, at::kFloat);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const double alone = square_sum(flat);
  for (const int n : {2, 3, 7}) {
    at::set_num_threads(n);
    CHECK(square_sum(flat) == alone);
  }
  at::set_num_threads(threads);
}

TEST_CASE("one non-finite value is seen wherever it lies", "[tensor]") {
  for (const int64_t at : {0, 31, 40'000, 70'000, 99'999}) {
    for (const double value : {std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()}) {
      at::Tensor flat = waves(100'000, at::kFloat);
      flat[at].fill_(value);
      CHECK_FALSE(std::isfinite(flat_norm(flat)));
    }
  }
}

TEST_CASE("finite values have a finite norm, however large", "[tensor]") {
  CHECK(flat_norm(at::full({4}, 1e300, at::kDouble)) == Approx(2e300));
  CHECK(flat_norm(at::full({4}, 3e38, at::kFloat)) == Approx(6e38));
  CHECK(flat_norm(at::zeros({0}, at::kDouble)) == 0);
}

TEST_CASE("scaling rounds as a product of the dtype does", "[tensor]") {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
    at::Tensor flat = waves(200'001, dtype);
    const at::Tensor want = flat * at::scalar_tensor(0.3, dtype);
    scale_flat(flat, 0.3);
    CHECK(at::allclose(flat, want, dtype == at::kBFloat16 ? 1e-2 : 0, 0));
  }
}

}  // namespace tenon
