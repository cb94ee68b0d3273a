// SPDX-License-Identifier: Apache-2.0
//
// RMSNorm over the last axis, in one forward and one backward pass, optionally fused with the
// preceding residual addition.
// Invariant: the weight's gradient is summed in pieces that depend on the shape only, so the result
// does not depend on the number of threads.
//
// Source: Zhang and Sennrich, Root Mean Square Layer Normalization (2019), equation 4.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstdint>

#include "row_math.hpp"

// Rows per task.
inline constexpr int64_t kNormPiece = 128;

// Writes y, scales and, unless delta is undefined, h = x + delta.
inline void cpu_norm(const at::Tensor& x,
                     const at::Tensor& delta,
                     const at::Tensor& w,
                     double eps,
                     at::Tensor& h,
                     at::Tensor& y,
                     at::Tensor& scales) {
  const int64_t width = x.size(-1);
  NormRows first{.x = x.const_data_ptr<float>(),
                 .delta = delta.defined() ? delta.const_data_ptr<float>() : nullptr,
                 .w = w.const_data_ptr<float>(),
                 .h = delta.defined() ? h.mutable_data_ptr<float>() : nullptr,
                 .y = y.mutable_data_ptr<float>(),
                 .scales = scales.mutable_data_ptr<float>()};
  at::parallel_for(0, scales.numel(), kNormPiece, [&](int64_t begin, int64_t end) {
    NormRows at = first;
    at.x += begin * width;
    at.y += begin * width;
    at.scales += begin;
    if (at.delta != nullptr) {
      at.delta += begin * width;
      at.h += begin * width;
    }
    norm_rows(at, end - begin, width, static_cast<float>(eps));
  });
}

struct NormGrads {
  at::Tensor dh;
  at::Tensor dw;
};

// `grad_h` may be undefined.
inline NormGrads cpu_norm_grads(const at::Tensor& h,
                                const at::Tensor& w,
                                const at::Tensor& scales,
                                const at::Tensor& grad_y,
                                const at::Tensor& grad_h) {
  const int64_t width = h.size(-1);
  const int64_t rows = scales.numel();
  const int64_t pieces = (rows + kNormPiece - 1) / kNormPiece;
  at::Tensor dh = at::empty_like(h);
  at::Tensor dw = at::zeros({pieces, width}, h.options());
  const NormGradRows first{.h = h.const_data_ptr<float>(),
                           .w = w.const_data_ptr<float>(),
                           .scales = scales.const_data_ptr<float>(),
                           .grad_y = grad_y.const_data_ptr<float>(),
                           .grad_h = grad_h.defined() ? grad_h.const_data_ptr<float>() : nullptr,
                           .dh = dh.mutable_data_ptr<float>(),
                           .dw = dw.mutable_data_ptr<float>()};
  at::parallel_for(0, pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t row = piece * kNormPiece;
      NormGradRows at = first;
      at.h += row * width;
      at.scales += row;
      at.grad_y += row * width;
      at.dh += row * width;
      at.dw += piece * width;
      if (at.grad_h != nullptr) {
        at.grad_h += row * width;
      }
      norm_grad_rows(at, std::min(kNormPiece, rows - row), width);
    }
  });
  return {dh, dw.sum(0)};
}

class CpuRmsNorm : public torch::autograd::Function<CpuRmsNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x_in,
                            const at::Tensor& weight,
                            double eps) {
    const at::AutoDispatchBelowADInplaceOrView below;
    at::Tensor x = x_in.contiguous();
    const at::Tensor w = weight.contiguous();
    at::Tensor y = at::empty_like(x);
    at::Tensor scales = at::empty({x.numel() / x.size(-1)}, x.options());
    cpu_norm(x, {}, w, eps, x, y, scales);
    context->save_for_backward({x, w, scales});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const NormGrads out =
        cpu_norm_grads(saved[0], saved[1], saved[2], grads[0].contiguous(), at::Tensor());
    return {out.dh, out.dw, at::Tensor()};
  }
};

// Returns h = x + delta and y = norm(h).
class CpuAddRmsNorm : public torch::autograd::Function<CpuAddRmsNorm> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const at::Tensor& x_in,
                                                const at::Tensor& delta_in,
                                                const at::Tensor& weight,
                                                double eps) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor x = x_in.contiguous();
    const at::Tensor delta = delta_in.contiguous();
    const at::Tensor w = weight.contiguous();
    at::Tensor h = at::empty_like(x);
    at::Tensor y = at::empty_like(x);
    at::Tensor scales = at::empty({x.numel() / x.size(-1)}, x.options());
    cpu_norm(x, delta, w, eps, h, y, scales);
    context->save_for_backward({h, w, scales});
    return {h, y};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const NormGrads out =
        cpu_norm_grads(saved[0], saved[1], saved[2], grads[1].contiguous(), grads[0].contiguous());
    return {out.dh, out.dh, out.dw, at::Tensor()};
  }
};
