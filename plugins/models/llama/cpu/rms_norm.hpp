// SPDX-License-Identifier: Apache-2.0
//
// RMSNorm over the last axis in one pass forward and one backward.
// Invariant: rows are summed into the weight's gradient in pieces that depend on the shape alone,
// so that the result does not depend on the number of threads.
//
// Source: Zhang and Sennrich, Root Mean Square Layer Normalization (2019), equation 4.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "simd.hpp"

// Sums over a row are kept in this many parts, which a compiler turns into vectors.
inline constexpr int64_t kRowParts = 32;

// y = x * r * w with r = 1 / sqrt(mean(x^2) + eps), for n rows of `width`; r goes to `scales`.
LLAMA_SIMD static void rms_norm_rows(
    const float* x, const float* w, float* y, float* scales, int64_t n, int64_t width, float eps) {
  for (int64_t row = 0; row < n; ++row, x += width, y += width) {
    float parts[kRowParts] = {};
    int64_t i = 0;
    for (; i + kRowParts <= width; i += kRowParts) {
      for (int64_t k = 0; k < kRowParts; ++k) {
        parts[k] += x[i + k] * x[i + k];
      }
    }
    for (; i < width; ++i) {
      parts[0] += x[i] * x[i];
    }
    float sum = 0;
    for (int64_t k = 0; k < kRowParts; ++k) {
      sum += parts[k];
    }
    const float r = 1.0f / std::sqrt(sum / static_cast<float>(width) + eps);
    scales[row] = r;
    for (i = 0; i < width; ++i) {
      y[i] = x[i] * r * w[i];
    }
  }
}

// With a = g * w: dx = r * (a - x * r^2 * mean(a * x)); dw += g * x * r.
LLAMA_SIMD static void rms_norm_grad_rows(const float* x,
                                          const float* w,
                                          const float* scales,
                                          const float* g,
                                          float* dx,
                                          float* dw,
                                          int64_t n,
                                          int64_t width) {
  for (int64_t row = 0; row < n; ++row, x += width, g += width, dx += width) {
    const float r = scales[row];
    float parts[kRowParts] = {};
    int64_t i = 0;
    for (; i + kRowParts <= width; i += kRowParts) {
      for (int64_t k = 0; k < kRowParts; ++k) {
        parts[k] += g[i + k] * w[i + k] * x[i + k];
      }
    }
    for (; i < width; ++i) {
      parts[0] += g[i] * w[i] * x[i];
    }
    float sum = 0;
    for (int64_t k = 0; k < kRowParts; ++k) {
      sum += parts[k];
    }
    const float back = r * r * r * sum / static_cast<float>(width);
    for (i = 0; i < width; ++i) {
      dx[i] = r * g[i] * w[i] - back * x[i];
      dw[i] += g[i] * x[i] * r;
    }
  }
}

class CpuRmsNorm : public torch::autograd::Function<CpuRmsNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x_in,
                            const at::Tensor& weight,
                            double eps) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor x = x_in.contiguous();
    const at::Tensor w = weight.contiguous();
    const int64_t width = x.size(-1);
    const int64_t rows = x.numel() / width;
    at::Tensor y = at::empty_like(x);
    at::Tensor scales = at::empty({rows}, x.options());
    const float* in = x.const_data_ptr<float>();
    float* out = y.mutable_data_ptr<float>();
    float* r = scales.mutable_data_ptr<float>();
    at::parallel_for(0, rows, kPiece, [&](int64_t begin, int64_t end) {
      rms_norm_rows(in + begin * width,
                    w.const_data_ptr<float>(),
                    out + begin * width,
                    r + begin,
                    end - begin,
                    width,
                    static_cast<float>(eps));
    });
    context->save_for_backward({x, w, scales});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& w = saved[1];
    const at::Tensor g = grads[0].contiguous();
    const int64_t width = x.size(-1);
    const int64_t rows = x.numel() / width;
    const int64_t pieces = (rows + kPiece - 1) / kPiece;
    at::Tensor dx = at::empty_like(x);
    at::Tensor dw = at::zeros({pieces, width}, x.options());
    float* out = dx.mutable_data_ptr<float>();
    float* sums = dw.mutable_data_ptr<float>();
    at::parallel_for(0, pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t row = piece * kPiece;
        rms_norm_grad_rows(x.const_data_ptr<float>() + row * width,
                           w.const_data_ptr<float>(),
                           saved[2].const_data_ptr<float>() + row,
                           g.const_data_ptr<float>() + row * width,
                           out + row * width,
                           sums + piece * width,
                           std::min(kPiece, rows - row),
                           width);
      }
    });
    return {dx, dw.sum(0), at::Tensor()};
  }

 private:
  static constexpr int64_t kPiece = 128;  // rows
};
