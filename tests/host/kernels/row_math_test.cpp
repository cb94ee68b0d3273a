// SPDX-License-Identifier: Apache-2.0
//
// The row kernels of host/kernels on each machine that this one can stand for, against formulas in
// fp64.
#include "host/kernels/row_math.hpp"

#include <tenon/simd/softmax_rows.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

using namespace tenon;
#define SIMD_KERNELS "tests/host/kernels/row_kernels.hpp"
#include <tenon/simd/each_machine.hpp>

namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

struct Kernels {
  std::string name;
  void (*layer_norm)(const LayerNormRows&, int64_t rows, int64_t width, float eps);
  void (*layer_norm_grad)(const LayerNormGradRows&, int64_t rows, int64_t width);
  void (*rope)(const RopeHeads&, int64_t heads, int64_t half, float sign);
  void (*sum)(const float*, const int64_t* rows, int64_t num, int64_t width, float* out);
  SoftmaxStats (*stats)(const float* x, int64_t n);
  void (*gradient)(const float* x, int64_t n, int64_t label, const SoftmaxSlopes&, float* to);
};

#define TENON_TEST_KERNELS(machine)                                                            \
  Kernels {                                                                                    \
#machine, machine::layer_norm_of_rows, machine::layer_norm_grad_of_rows,                   \
        machine::rope_of_heads, machine::sum_of_selected_rows, machine::stats_of_row < float>, \
        machine::gradient_of_row < float>                                                      \
  }

std::vector<Kernels> kernels_of_this_machine() {
  std::vector<Kernels> all = {TENON_TEST_KERNELS(simd_basic)};
#if TENON_SIMD_X86
  if (this_machine() != Machine::kBasic) {
    all.push_back(TENON_TEST_KERNELS(simd_avx2));
  }
  if (this_machine() == Machine::kAvx512) {
    all.push_back(TENON_TEST_KERNELS(simd_avx512));
  }
#endif
  return all;
}

Floats random_floats(unsigned seed, int64_t num) {
  std::mt19937 engine(seed);
  Floats out(static_cast<size_t>(num));
  for (float& x : out) {
    x = static_cast<float>(engine()) / 2147483648.0f - 1.0f;
  }
  return out;
}

// Memory after the end that a kernel must not write.
constexpr float kUntouched = 77.0f;
Floats guarded(int64_t num) {
  return Floats(static_cast<size_t>(num) + 16, kUntouched);
}
bool is_untouched_after(const Floats& x, int64_t num) {
  return std::all_of(x.begin() + num, x.end(), [](float value) { return value == kUntouched; });
}

}  // namespace

TEST_CASE("layer norms of rows are the formula's on each machine", "[parity]") {
  const int64_t width = GENERATE(1, 3, 4, 7, 8, 13, 16, 31, 64, 129);
  constexpr int64_t kRows = 3;
  constexpr double kEps = 1e-2;
  CAPTURE(width);
  const Floats x = random_floats(1, kRows * width);
  const Floats w = random_floats(2, width);
  const Floats b = random_floats(3, width);
  const Floats g = random_floats(4, kRows * width);
  const auto n = static_cast<double>(width);
  for (const Kernels& kernels : kernels_of_this_machine()) {
    CAPTURE(kernels.name);
    Floats y = guarded(kRows * width);
    Floats dx = guarded(kRows * width);
    Floats means = guarded(kRows);
    Floats scales = guarded(kRows);
    Floats dw = guarded(width);
    Floats db = guarded(width);
    std::fill(dw.begin(), dw.begin() + width, 0.0f);
    std::fill(db.begin(), db.begin() + width, 0.0f);
    kernels.layer_norm({x.data(), w.data(), b.data(), y.data(), means.data(), scales.data()},
                       kRows,
                       width,
                       static_cast<float>(kEps));
    kernels.layer_norm_grad({x.data(),
                             w.data(),
                             means.data(),
                             scales.data(),
                             g.data(),
                             dx.data(),
                             dw.data(),
                             db.data()},
                            kRows,
                            width);
    Doubles want_dw(w.size());
    Doubles want_db(w.size());
    for (int64_t row = 0; row < kRows; ++row) {
      const auto at = static_cast<size_t>(row * width);
      double mean = 0;
      double variance = 0;
      for (size_t i = 0; i < w.size(); ++i) {
        mean += static_cast<double>(x[at + i]) / n;
      }
      for (size_t i = 0; i < w.size(); ++i) {
        variance += std::pow(static_cast<double>(x[at + i]) - mean, 2) / n;
      }
      const double r = 1.0 / std::sqrt(variance + kEps);
      double mean_a = 0;
      double mean_au = 0;
      for (size_t i = 0; i < w.size(); ++i) {
        const double u = (static_cast<double>(x[at + i]) - mean) * r;
        const double a = static_cast<double>(g[at + i]) * static_cast<double>(w[i]);
        mean_a += a / n;
        mean_au += a * u / n;
        want_dw[i] += static_cast<double>(g[at + i]) * u;
        want_db[i] += static_cast<double>(g[at + i]);
        CHECK(static_cast<double>(y[at + i]) ==
              Approx(u * static_cast<double>(w[i]) + static_cast<double>(b[i])).margin(2e-6));
      }
      for (size_t i = 0; i < w.size(); ++i) {
        const double u = (static_cast<double>(x[at + i]) - mean) * r;
        const double a = static_cast<double>(g[at + i]) * static_cast<double>(w[i]);
        CHECK(static_cast<double>(dx[at + i]) ==
              Approx((a - mean_a - u * mean_au) * r).margin(1e-5));
      }
    }
    for (size_t i = 0; i < w.size(); ++i) {
      CHECK(static_cast<double>(dw[i]) == Approx(want_dw[i]).margin(3e-6));
      CHECK(static_cast<double>(db[i]) == Approx(want_db[i]).margin(3e-6));
    }
    CHECK(is_untouched_after(y, kRows * width));
    CHECK(is_untouched_after(dx, kRows * width));
    CHECK(is_untouched_after(dw, width));
    CHECK(is_untouched_after(db, width));
  }
}

TEST_CASE("heads are rotated, and rotated back, on each machine", "[parity]") {
  const int64_t half = GENERATE(1, 3, 4, 8, 11, 16, 33);
  constexpr int64_t kHeads = 3;
  CAPTURE(half);
  const int64_t stride = 2 * half + 5;
  const Floats x = random_floats(1, kHeads * stride);
  const Floats angles = random_floats(2, half);
  Floats cos;
  Floats sin;
  for (const float angle : angles) {
    cos.push_back(std::cos(angle));
    sin.push_back(std::sin(angle));
  }
  for (const Kernels& kernels : kernels_of_this_machine()) {
    CAPTURE(kernels.name);
    Floats y = guarded(kHeads * 2 * half);
    Floats back = guarded(kHeads * 2 * half);
    kernels.rope(
        {x.data(), stride, cos.data(), sin.data(), y.data(), 2 * half}, kHeads, half, 1.0f);
    kernels.rope(
        {y.data(), 2 * half, cos.data(), sin.data(), back.data(), 2 * half}, kHeads, half, -1.0f);
    for (int64_t head = 0; head < kHeads; ++head) {
      for (int64_t i = 0; i < half; ++i) {
        const auto from = static_cast<size_t>(head * stride + i);
        const auto to = static_cast<size_t>(head * 2 * half + i);
        const auto at = static_cast<size_t>(i);
        const auto other = static_cast<size_t>(half);
        CHECK(y[to] == Approx(x[from] * cos[at] - x[from + other] * sin[at]).margin(1e-6));
        CHECK(y[to + other] == Approx(x[from + other] * cos[at] + x[from] * sin[at]).margin(1e-6));
        CHECK(back[to] == Approx(x[from]).margin(1e-6));
        CHECK(back[to + other] == Approx(x[from + other]).margin(1e-6));
      }
    }
    CHECK(is_untouched_after(y, kHeads * 2 * half));
  }
}

TEST_CASE("selected rows are summed in order on each machine", "[parity]") {
  const int64_t width = GENERATE(1, 3, 8, 17, 64, 133);
  CAPTURE(width);
  const Floats x = random_floats(1, 6 * width);
  const std::vector<int64_t> rows = {4, 0, 4, 5};
  for (const Kernels& kernels : kernels_of_this_machine()) {
    CAPTURE(kernels.name);
    Floats sum = guarded(width);
    kernels.sum(x.data(), rows.data(), 4, width, sum.data());
    for (int64_t i = 0; i < width; ++i) {
      const auto at = [&](int64_t row) { return x[static_cast<size_t>(row * width + i)]; };
      CHECK(sum[static_cast<size_t>(i)] == ((at(4) + at(0)) + at(4)) + at(5));
    }
    CHECK(is_untouched_after(sum, width));
  }
}

TEST_CASE("softmax rows are the formula's on each machine, also in place", "[parity]") {
  const int64_t n = GENERATE(1, 3, 4, 8, 13, 16, 37, 200);
  CAPTURE(n);
  const Floats x = random_floats(1, n);
  for (const Kernels& kernels : kernels_of_this_machine()) {
    CAPTURE(kernels.name);
    const SoftmaxStats stats = kernels.stats(x.data(), n);
    double sum = 0;
    for (const float value : x) {
      sum += std::exp(static_cast<double>(value) - stats.largest);
    }
    CHECK(stats.largest == static_cast<double>(*std::max_element(x.begin(), x.end())));
    CHECK(stats.sum == Approx(sum).epsilon(1e-6));
    const SoftmaxSlopes slopes{
        .largest = stats.largest, .slope = 2.0 / sum, .spread = 0.25, .at_label = 0.5};
    for (const int64_t label : {int64_t{0}, n / 2, n - 1, int64_t{-1}, n, n + 40}) {
      CAPTURE(label);
      Floats apart = guarded(n);
      Floats in_place = x;
      kernels.gradient(x.data(), n, label, slopes, apart.data());
      kernels.gradient(in_place.data(), n, label, slopes, in_place.data());
      for (int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<size_t>(i);
        const double want = std::exp(static_cast<double>(x[at]) - stats.largest) * slopes.slope -
                            0.25 - (i == label ? 0.5 : 0.0);
        CHECK(static_cast<double>(apart[at]) == Approx(want).margin(1e-6));
        CHECK(in_place[at] == apart[at]);
      }
      CHECK(is_untouched_after(apart, n));
    }
    const Floats excluded(static_cast<size_t>(n), -std::numeric_limits<float>::infinity());
    CHECK(kernels.stats(excluded.data(), n).sum == 0.0);
  }
}
