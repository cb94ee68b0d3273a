// SPDX-License-Identifier: Apache-2.0
//
// Row-wise operations of a layer, in fp32 without ATen: RMSNorm with the preceding residual,
// LayerNorm, SwiGLU, rotary positions, and sums of selected rows.
// Invariant: rows are independent, except for sums over the rows of one call, in row order.
//
// Source: Zhang and Sennrich, Root Mean Square Layer Normalization (2019), equation 4; Ba, Kiros
// and Hinton, Layer Normalization (2016), section 3; Shazeer, GLU Variants Improve Transformer
// (2020); Su et al., RoFormer (2021), equation 34.
#pragma once

#include <cstdint>

namespace tenon {

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

// y = (x - m) * r * w + b with m = mean(x) and r = 1 / sqrt(mean((x - m)^2) + eps), for `rows` rows
// of `width`. Stores m and r. If w is null, it is 1; if b is null, it is 0.
struct LayerNormRows {
  const float* x = nullptr;
  const float* w = nullptr;
  const float* b = nullptr;
  float* y = nullptr;
  float* means = nullptr;
  float* scales = nullptr;
};
void layer_norm_rows(const LayerNormRows& at, int64_t rows, int64_t width, float eps);

// Writes dx. Adds to dw and db unless they are null.
struct LayerNormGradRows {
  const float* x = nullptr;
  const float* w = nullptr;
  const float* means = nullptr;
  const float* scales = nullptr;
  const float* grad_y = nullptr;
  float* dx = nullptr;
  float* dw = nullptr;
  float* db = nullptr;
};
void layer_norm_grad_rows(const LayerNormGradRows& at, int64_t rows, int64_t width);

// y = silu(gate) * up, for `rows` rows of `width`. Rows of gate and up start `stride` apart, those
// of y `width`.
struct SwigluRows {
  const float* gate = nullptr;
  const float* up = nullptr;
  int64_t stride = 0;
  float* y = nullptr;
};
void swiglu_rows(const SwigluRows& at, int64_t rows, int64_t width);

// Writes the gradients by gate and up, whose rows start `stride` apart too.
struct SwigluGradRows {
  const float* gate = nullptr;
  const float* up = nullptr;
  int64_t stride = 0;
  const float* grad_y = nullptr;
  float* grad_gate = nullptr;
  float* grad_up = nullptr;
};
void swiglu_grad_rows(const SwigluGradRows& at, int64_t rows, int64_t width);

// Rotates the first 2 * `half` elements, which are dense, of `heads` heads of one position. A head
// starts `x_stride` or `y_stride` after the head before it. (a, b) becomes (a cos - b sin, b cos +
// a sin), with b `half` elements after a. `inverse` rotates back.
struct RopeHeads {
  const float* x = nullptr;
  int64_t x_stride = 0;
  const float* cos = nullptr;
  const float* sin = nullptr;
  float* y = nullptr;
  int64_t y_stride = 0;
};
void rope_heads(const RopeHeads& at, int64_t heads, int64_t half, bool inverse);

// out[i] = sum of from[rows[k] * width + i] over k in [0, num), in this order. `num` is at least 1.
void sum_selected_rows(
    const float* from, const int64_t* rows, int64_t num, int64_t width, float* out);

}  // namespace tenon
