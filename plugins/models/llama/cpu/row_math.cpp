// SPDX-License-Identifier: Apache-2.0
#include "row_math.hpp"

#include <cmath>

#define SIMD_KERNELS "../models/llama/cpu/row_math_kernels.hpp"
#include "../../../simd/each_machine.hpp"

void norm_rows(const NormRows& at, int64_t rows, int64_t width, float eps) {
  SIMD_CHOICE(norm)(at, rows, width, eps);
}

void norm_grad_rows(const NormGradRows& at, int64_t rows, int64_t width) {
  SIMD_CHOICE(norm_grad)(at, rows, width);
}

void swiglu_rows(const float* gate_up, float* y, int64_t rows, int64_t width) {
  SIMD_CHOICE(swiglu)(gate_up, y, rows, width);
}

void swiglu_grad_rows(
    const float* gate_up, const float* grad_y, float* grad_gate_up, int64_t rows, int64_t width) {
  SIMD_CHOICE(swiglu_grad)(gate_up, grad_y, grad_gate_up, rows, width);
}
