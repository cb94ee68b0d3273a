// SPDX-License-Identifier: Apache-2.0
//
// The kernels of the sparse optimizers on each machine that this one can stand for, against the
// same formulas for single elements, which are what CUDA runs.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "plugins/sparse_optimizers/row_settings.hpp"
#include "tests/support/catch.hpp"

#define SIMD_KERNELS "plugins/sparse_optimizers/row_kernels.hpp"
#include <tenon/simd/each_machine.hpp>

// As row_cuda.cuh has it, on a CPU.
namespace single {

#define ROW_INLINE inline

ROW_INLINE float root_of(float x) {
  return std::sqrt(x);
}
ROW_INLINE float scalar_root_of(float x) {
  return std::sqrt(x);
}
ROW_INLINE double double_root_of(double x) {
  return std::sqrt(x);
}
ROW_INLINE double power_of(double x, int64_t n) {
  return std::pow(x, static_cast<double>(n));
}

#include "plugins/sparse_optimizers/row_elements.hpp"
#include "plugins/sparse_optimizers/row_formulas.hpp"

template <class Formula>
void update_rows(const RowsCall& call,
                 const typename Formula::Settings& settings,
                 float*,
                 uint32_t*) {
  const Formula formula(settings, *call.lr, *call.step);
  for (size_t i = 0; i < call.n; ++i) {
    float scale = 0;
    if constexpr (Formula::kHasRowSlot) {
      float sum = 0;
      for (uint32_t j = 0; j < call.dim; ++j) {
        sum += element_square(call, formula, i, j);
      }
      scale = formula.next_scale(
          sum / static_cast<float>(call.dim),
          reinterpret_cast<float*>(row_address(call, call.rows_R[i]) + call.slot_offsets[0]));
    }
    for (uint32_t j = 0; j < call.dim; ++j) {
      update_element(call, formula, i, j, scale);
    }
  }
}

}  // namespace single

namespace {

constexpr size_t kRows = 41;  // more than are asked for ahead

// Rows of one float value and two slots, in blocks of four.
struct Rows {
  explicit Rows(uint32_t dim) : stride((3 * dim + 3) * sizeof(float)) {
    for (size_t b = 0; b <= kRows / 4; ++b) {
      memory.emplace_back(4 * stride / sizeof(float));
      blocks.push_back(memory.back().data());
    }
    for (size_t b = 0; b < memory.size(); ++b) {
      for (size_t k = 0; k < memory[b].size(); ++k) {
        memory[b][k] = static_cast<float>(1.0 + std::sin(static_cast<double>(100 * b + k)));
      }
    }
  }
  size_t stride;
  std::vector<std::vector<float>> memory;
  std::vector<void*> blocks;
};

template <class Settings, class Kernel>
std::vector<std::vector<float>> updated(uint32_t dim, const Settings& settings, Kernel kernel) {
  Rows rows(dim);
  std::vector<int64_t> numbers;
  std::vector<int64_t> counts;
  std::vector<float> grads;
  for (size_t i = 0; i < kRows; ++i) {
    numbers.push_back(static_cast<int64_t>((i * 8) % kRows));
    counts.push_back(1 + static_cast<int64_t>(i % 3));
    for (uint32_t j = 0; j < dim; ++j) {
      grads.push_back(static_cast<float>(std::cos(static_cast<double>(i * dim + j))));
    }
  }
  const int64_t step = 5;
  const double lr = 0.01;
  RowsCall call;
  call.blocks = rows.blocks.data();
  call.stride = rows.stride;
  call.shift = 2;
  call.dim = dim;
  call.value_offset = 4;
  call.slot_offsets[0] = static_cast<int32_t>(4 + 4 * dim);
  call.slot_offsets[1] = static_cast<int32_t>(8 + 8 * dim);
  call.n = kRows;
  call.rows_R = numbers.data();
  call.ids_R = numbers.data();
  call.grads_RD = grads.data();
  call.counts_R = counts.data();
  call.step = &step;
  call.lr = &lr;
  std::vector<float> buffer(dim);
  std::vector<uint32_t> words(dim + 32);
  kernel(call, settings, buffer.data(), words.data());
  return rows.memory;
}

// The largest difference, relative to numbers of 1 and more.
double difference(const std::vector<std::vector<float>>& a,
                  const std::vector<std::vector<float>>& b) {
  double worst = 0;
  for (size_t k = 0; k < a.size(); ++k) {
    for (size_t i = 0; i < a[k].size(); ++i) {
      worst = std::max(worst,
                       std::abs(static_cast<double>(a[k][i]) - b[k][i]) /
                           std::max(1.0, std::abs(static_cast<double>(b[k][i]))));
    }
  }
  return worst;
}

// Vectors may contract a product and a sum where single elements do not, no more.
#if TENON_SIMD_X86
#define CHECK_FORMULA(Formula, ...)                                                            \
  do {                                                                                         \
    INFO(#Formula);                                                                            \
    const single::Formula::Settings settings __VA_ARGS__;                                      \
    for (const uint32_t dim : {1u, 3u, 4u, 8u, 15u, 16u, 17u, 32u, 50u}) {                     \
      CAPTURE(dim);                                                                            \
      const auto want = updated(dim, settings, single::update_rows<single::Formula>);          \
      const auto basic = updated(dim, settings, simd_basic::update_rows<simd_basic::Formula>); \
      CHECK(difference(basic, want) < 1e-6);                                                   \
      if (this_machine() != Machine::kBasic) {                                                 \
        const auto avx2 = updated(dim, settings, simd_avx2::update_rows<simd_avx2::Formula>);  \
        CHECK(difference(avx2, want) < 1e-6);                                                  \
      }                                                                                        \
      if (this_machine() == Machine::kAvx512) {                                                \
        const auto avx512 =                                                                    \
            updated(dim, settings, simd_avx512::update_rows<simd_avx512::Formula>);            \
        CHECK(difference(avx512, want) < 1e-6);                                                \
      }                                                                                        \
    }                                                                                          \
  } while (false)
#else
#define CHECK_FORMULA(Formula, ...)                                                            \
  do {                                                                                         \
    INFO(#Formula);                                                                            \
    const single::Formula::Settings settings __VA_ARGS__;                                      \
    for (const uint32_t dim : {1u, 3u, 4u, 8u, 15u, 16u, 17u, 32u, 50u}) {                     \
      CAPTURE(dim);                                                                            \
      const auto want = updated(dim, settings, single::update_rows<single::Formula>);          \
      const auto basic = updated(dim, settings, simd_basic::update_rows<simd_basic::Formula>); \
      CHECK(difference(basic, want) < 1e-6);                                                   \
    }                                                                                          \
  } while (false)
#endif

}  // namespace

TEST_CASE("rows are updated alike on each machine, by vectors and by elements", "[plugins]") {
  CHECK_FORMULA(SgdFormula, {0.0, false, 0.1});
  CHECK_FORMULA(MomentumFormula, {0.9, true, 0.1});
  CHECK_FORMULA(MomentumFormula, {0.9, false, 0.0});
  CHECK_FORMULA(AdagradFormula, {0.1, 1e-3, 0.1});
  CHECK_FORMULA(RowwiseAdagradFormula, {0.1, 1e-3, 0.1});
  CHECK_FORMULA(AdamFormula, {0.9, 0.99, 1e-4, true, 0.1, 0.1, false});
  CHECK_FORMULA(FtrlFormula, {0.5, 0.1, 1.0});
  CHECK_FORMULA(LionFormula, {0.9, 0.99, 0.1});
}
