// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/flat_pass.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <limits>

#include "tests/support/catch.hpp"
#include "tests/support/plain_squares.hpp"

namespace tenon {
namespace {

at::Tensor waves(int64_t n, at::ScalarType dtype) {
  return at::sin(at::arange(n, at::kDouble)).to(dtype);
}

double squares_of(const at::Tensor& flat, int64_t chunk) {
  ExactSum sum;
  add_squares(sum, flat, chunk);
  return sum.value();
}

double plain_squares(const at::Tensor& wide, int64_t chunk) {
  ExactSum sum;
  add_plain_squares(sum, wide, chunk);
  return sum.value();
}

}  // namespace

TEST_CASE("squares of a chunk are added in lanes, for each length, chunk and dtype", "[tensor]") {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t n : {0, 1, 15, 16, 17, 100, 1024, 1030, 65'537, 300'001}) {
      const at::Tensor flat = waves(n, dtype);
      const at::Tensor wide = flat.to(at::kDouble);
      for (const int64_t chunk : {16, 48, 64, 1024}) {
        INFO(c10::toString(dtype) << ", " << n << ", " << chunk);
        const double sum = squares_of(flat, chunk);
        REQUIRE(sum == plain_squares(wide, chunk));
        REQUIRE(sum == Approx(wide.square().sum().item<double>()).epsilon(1e-13));
      }
    }
  }
}

TEST_CASE("a sum of squares has the same bits with any number of threads", "[tensor]") {
  const at::Tensor flat = waves(1'000'003, at::kFloat);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const double alone = squares_of(flat, 256);
  for (const int n : {2, 3, 7}) {
    at::set_num_threads(n);
    CHECK(squares_of(flat, 256) == alone);
  }
  at::set_num_threads(threads);
}

TEST_CASE("a sum of squares has the same bits for any cut between chunks", "[tensor]") {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const at::Tensor flat = waves(200'005, dtype);
    const double whole = squares_of(flat, 64);
    for (const int64_t cut : {64, 6400, 128'000, 200'000}) {
      ExactSum sum;
      add_squares(sum, flat.narrow(0, cut, flat.numel() - cut), 64);
      add_squares(sum, flat.narrow(0, 0, cut), 64);
      CHECK(sum.value() == whole);
    }
    const at::Tensor padded = at::cat({flat, at::zeros({123}, dtype)});
    CHECK(squares_of(padded, 64) == whole);
  }
}

TEST_CASE("one non-finite value is seen wherever it lies", "[tensor]") {
  for (const int64_t at : {0, 31, 40'000, 70'000, 99'999}) {
    for (const double value : {std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()}) {
      at::Tensor flat = waves(100'000, at::kFloat);
      flat[at].fill_(value);
      CHECK_FALSE(std::isfinite(squares_of(flat, 1024)));
    }
  }
}

TEST_CASE("squares of finite fp32 values have a finite sum, however large", "[tensor]") {
  CHECK(squares_of(at::full({4}, 3e38, at::kFloat), 16) == Approx(36e76));
  CHECK(squares_of(at::full({4}, 1e300, at::kDouble), 16) ==
        std::numeric_limits<double>::infinity());
  CHECK(squares_of(at::zeros({0}, at::kDouble), 16) == 0);
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
