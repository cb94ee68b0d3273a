// SPDX-License-Identifier: Apache-2.0
//
// Row-wise operations of a layer, in fp32 without ATen: RMSNorm with the preceding residual, and
// SwiGLU.
// Invariant: rows are independent, except for sums over the rows of one call, in row order.
//
// Source: Zhang and Sennrich, Root Mean Square Layer Normalization (2019), equation 4; Shazeer, GLU
// Variants Improve Transformer (2020).
#pragma once

#include <cstdint>

// h = x + delta, y = h * r * w with r = 1 / sqrt(mean(h^2) + eps), for `rows` rows of `width`.
// Stores r in `scales`. If delta is null, h = x and `h` is not written.
struct NormRows {
  const float* x = nullptr;
  const float* delta = nullptr;
  const float* w = nullptr;
  float* h = nullptr;
  float* y = nullptr;
  float* scales = nullptr;
};
void norm_rows(const NormRows& at, int64_t rows, int64_t width, float eps);

// From the gradients of y and, unless null, of h: dh = grad_h + the gradient through y. Adds to dw.
struct NormGradRows {
  const float* h = nullptr;
  const float* w = nullptr;
  const float* scales = nullptr;
  const float* grad_y = nullptr;
  const float* grad_h = nullptr;
  float* dh = nullptr;
  float* dw = nullptr;
};
void norm_grad_rows(const NormGradRows& at, int64_t rows, int64_t width);

// y = silu(gate) * up; a row of `gate_up` has `width` gates, then `width` ups.
void swiglu_rows(const float* gate_up, float* y, int64_t rows, int64_t width);

// The gradient of gate_up, in the same layout.
void swiglu_grad_rows(
    const float* gate_up, const float* grad_y, float* grad_gate_up, int64_t rows, int64_t width);
