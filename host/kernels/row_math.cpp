// SPDX-License-Identifier: Apache-2.0
#include "host/kernels/row_math.hpp"

#include <cmath>

using namespace tenon;

#define SIMD_KERNELS "host/kernels/row_math_kernels.hpp"
#include <tenon/simd/each_machine.hpp>

namespace tenon {

void norm_rows(const NormRows& at, int64_t rows, int64_t width, float eps) {
  SIMD_CHOICE(norm)(at, rows, width, eps);
}

void norm_grad_rows(const NormGradRows& at, int64_t rows, int64_t width) {
  SIMD_CHOICE(norm_grad)(at, rows, width);
}

void swiglu_rows(const SwigluRows& at, int64_t rows, int64_t width) {
  SIMD_CHOICE(swiglu)(at, rows, width);
}

void swiglu_grad_rows(const SwigluGradRows& at, int64_t rows, int64_t width) {
  SIMD_CHOICE(swiglu_grad)(at, rows, width);
}

void layer_norm_rows(const LayerNormRows& at, int64_t rows, int64_t width, float eps) {
  SIMD_CHOICE(layer_norm_of_rows)(at, rows, width, eps);
}

void layer_norm_grad_rows(const LayerNormGradRows& at, int64_t rows, int64_t width) {
  SIMD_CHOICE(layer_norm_grad_of_rows)(at, rows, width);
}

void rope_heads(const RopeHeads& at, int64_t heads, int64_t half, bool inverse) {
  SIMD_CHOICE(rope_of_heads)(at, heads, half, inverse ? -1.0f : 1.0f);
}

void sum_selected_rows(
    const float* from, const int64_t* rows, int64_t num, int64_t width, float* out) {
  SIMD_CHOICE(sum_of_selected_rows)(from, rows, num, width, out);
}

}  // namespace tenon
