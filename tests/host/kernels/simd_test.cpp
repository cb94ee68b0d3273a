// SPDX-License-Identifier: Apache-2.0
//
// The vectors of tenon/simd on each machine that this one can stand for. The oracle is libm, in
// fp64.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/catch.hpp"

#define SIMD_KERNELS "tests/host/kernels/simd_kernels.hpp"
#include <tenon/simd/each_machine.hpp>

namespace {

struct Kernels {
  int64_t lanes;
  void (*exponentials)(const float* x, float* y, int64_t n);
  float (*sum)(const float* x, int64_t n);
  float (*largest)(const float* x, int64_t n);
};

std::vector<Kernels> kernels_of_this_machine() {
  std::vector<Kernels> all = {
      {4, simd_basic::exponentials, simd_basic::sum_all, simd_basic::largest_of_all}};
#if TENON_SIMD_X86
  if (this_machine() != Machine::kBasic) {
    all.push_back({8, simd_avx2::exponentials, simd_avx2::sum_all, simd_avx2::largest_of_all});
  }
  if (this_machine() == Machine::kAvx512) {
    all.push_back(
        {16, simd_avx512::exponentials, simd_avx512::sum_all, simd_avx512::largest_of_all});
  }
#endif
  return all;
}

}  // namespace

TEST_CASE("exponentials of vectors are right to two units in the last place", "[plugins]") {
  std::vector<float> x;
  for (float value = -87.3f; value < 88.7f; value += 0.0037f) {
    x.push_back(value);
  }
  x.resize(x.size() / 16 * 16);
  std::vector<float> y(x.size());
  for (const Kernels& kernels : kernels_of_this_machine()) {
    CAPTURE(kernels.lanes);
    kernels.exponentials(x.data(), y.data(), static_cast<int64_t>(x.size()));
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = std::exp(static_cast<double>(x[i]));
      worst = std::max(worst, std::abs(static_cast<double>(y[i]) - want) / want);
    }
    CHECK(worst < 2 * std::numeric_limits<float>::epsilon());
  }
}

TEST_CASE("exponentials of vectors keep to the ends of what floats hold", "[plugins]") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> x(16, 0.0f);
  x[1] = -kInfinity;
  x[2] = -1000.0f;
  x[3] = std::numeric_limits<float>::quiet_NaN();
  x[4] = 1000.0f;
  std::vector<float> y(x.size());
  for (const Kernels& kernels : kernels_of_this_machine()) {
    CAPTURE(kernels.lanes);
    kernels.exponentials(x.data(), y.data(), 16);
    CHECK(y[0] == 1.0f);
    CHECK(y[1] == 0.0f);
    CHECK(y[2] == 0.0f);
    CHECK(std::isnan(y[3]));
    CHECK(y[4] > 1e38f);  // the largest there is, not infinity
    CHECK(std::isfinite(y[4]));
  }
}

TEST_CASE("sums and largest elements are over all lanes", "[plugins]") {
  std::vector<float> x(64);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i * 37 % 64) - 70.0f;
  }
  for (const Kernels& kernels : kernels_of_this_machine()) {
    CAPTURE(kernels.lanes);
    CHECK(kernels.sum(x.data(), 64) == 64.0f * 31.5f - 70.0f * 64.0f);
    CHECK(kernels.largest(x.data(), 64) == -7.0f);
  }
}
