// SPDX-License-Identifier: Apache-2.0
//
// On the CPU; gpu_test.cpp compares a GPU with it.
#include "host/device/exact_squares.hpp"

#include "host/tensor/exact_words.hpp"

#include <ATen/Functions.h>

#include <cmath>
#include <limits>

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("words in a tensor are an exact sum of squares", "[device]") {
  REQUIRE(has_exact_squares(at::kCPU));
  at::Tensor words = exact_zero(at::kCPU);
  CHECK(words.numel() == kExactWords);
  CHECK(exact_root(words).item<double>() == 0);
  add_exact_squares(words, at::tensor({3.0f, 4.0f}), 16);
  add_exact_squares(words, at::full({1}, 12.0, at::kDouble), 16);
  CHECK(exact_root(words).item<double>() == 13);
  // Words of ranks are added up.
  CHECK(exact_root(words * 4).item<double>() == 26);
  CHECK(exact_root(words).scalar_type() == at::kDouble);
}

TEST_CASE("words in a tensor count infinities and NaNs", "[device]") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  at::Tensor words = exact_zero(at::kCPU);
  add_exact_squares(words, at::full({1}, 1e200, at::kDouble), 16);
  CHECK(exact_root(words).item<double>() == kInfinity);  // the square exceeds fp64
  add_exact_squares(words, at::full({1}, std::nan(""), at::kDouble), 16);
  CHECK(std::isnan(exact_root(words).item<double>()));
}

}  // namespace tenon
