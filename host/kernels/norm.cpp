// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/norm.hpp"

#include "host/kernels/first_order.hpp"
#include "host/kernels/fused.hpp"
#include "host/kernels/row_math.hpp"
#include "host/kernels/saved_by.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace tenon {
namespace {

// Rows per task.
constexpr int64_t kNormPiece = 128;

// Writes y, scales and, unless delta is undefined, h = x + delta.
void norm_into(const at::Tensor& x,
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

struct Normed {
  at::Tensor y;
  at::Tensor scales;
};

Normed normed(const at::Tensor& x, const at::Tensor& w, double eps) {
  Normed out{at::empty_like(x), at::empty({x.numel() / x.size(-1)}, x.options())};
  at::Tensor none;
  norm_into(x, {}, w, eps, none, out.y, out.scales);
  return out;
}

struct NormGrads {
  at::Tensor dh;
  at::Tensor dw;
};

// `grad_h` may be undefined.
NormGrads norm_grads(const at::Tensor& h,
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

class RmsNorm : public torch::autograd::Function<RmsNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x_in,
                            const at::Tensor& weight,
                            double eps) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor x = x_in.contiguous();
    const at::Tensor w = weight.contiguous();
    const auto [y, scales] = normed(x, w, eps);
    context->save_for_backward({x, w, scales});
    context->saved_data["eps"] = eps;
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    check_first_order("rms_norm");
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const NormGrads out =
        norm_grads(saved[0], saved[1], saved[2], grads[0].contiguous(), at::Tensor());
    return {out.dh, out.dw, at::Tensor()};
  }
};

// Returns h = x + delta and y = norm(h).
class AddRmsNorm : public torch::autograd::Function<AddRmsNorm> {
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
    norm_into(x, delta, w, eps, h, y, scales);
    context->save_for_backward({h, w, scales});
    context->saved_data["eps"] = eps;
    return {h, y};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    check_first_order("add_rms_norm");
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const NormGrads out =
        norm_grads(saved[0], saved[1], saved[2], grads[1].contiguous(), grads[0].contiguous());
    return {out.dh, out.dh, out.dw, at::Tensor()};
  }
};

const float* data_or_null(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr<float>() : nullptr;
}

struct LayerNormed {
  at::Tensor y;
  at::Tensor means;
  at::Tensor scales;
};

// `w` and `b` may be undefined.
LayerNormed layer_normed(const at::Tensor& x,
                         const at::Tensor& w,
                         const at::Tensor& b,
                         double eps) {
  const int64_t width = x.size(-1);
  const int64_t rows = x.numel() / width;
  LayerNormed out{
      at::empty_like(x), at::empty({rows}, x.options()), at::empty({rows}, x.options())};
  const LayerNormRows first{.x = x.const_data_ptr<float>(),
                            .w = data_or_null(w),
                            .b = data_or_null(b),
                            .y = out.y.mutable_data_ptr<float>(),
                            .means = out.means.mutable_data_ptr<float>(),
                            .scales = out.scales.mutable_data_ptr<float>()};
  at::parallel_for(0, rows, kNormPiece, [&](int64_t begin, int64_t end) {
    LayerNormRows at = first;
    at.x += begin * width;
    at.y += begin * width;
    at.means += begin;
    at.scales += begin;
    layer_norm_rows(at, end - begin, width, static_cast<float>(eps));
  });
  return out;
}

class LayerNorm : public torch::autograd::Function<LayerNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x_in,
                            const std::optional<at::Tensor>& weight,
                            const std::optional<at::Tensor>& bias,
                            double eps) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor x = x_in.contiguous();
    const at::Tensor w = weight ? weight->contiguous() : at::Tensor();
    const at::Tensor b = bias ? bias->contiguous() : at::Tensor();
    const auto [y, means, scales] = layer_normed(x, w, b, eps);
    context->save_for_backward({x, w, means, scales, b});
    context->saved_data["eps"] = eps;
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    check_first_order("layer_norm");
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor grad_y = grads[0].contiguous();
    const int64_t width = x.size(-1);
    const int64_t rows = saved[2].numel();
    const int64_t pieces = (rows + kNormPiece - 1) / kNormPiece;
    at::Tensor dx = at::empty_like(x);
    at::Tensor dw;
    at::Tensor db;
    if (saved[1].defined()) {
      dw = at::zeros({pieces, width}, x.options());
    }
    if (saved[4].defined()) {
      db = at::zeros({pieces, width}, x.options());
    }
    const LayerNormGradRows first{.x = x.const_data_ptr<float>(),
                                  .w = data_or_null(saved[1]),
                                  .means = saved[2].const_data_ptr<float>(),
                                  .scales = saved[3].const_data_ptr<float>(),
                                  .grad_y = grad_y.const_data_ptr<float>(),
                                  .dx = dx.mutable_data_ptr<float>(),
                                  .dw = dw.defined() ? dw.mutable_data_ptr<float>() : nullptr,
                                  .db = db.defined() ? db.mutable_data_ptr<float>() : nullptr};
    at::parallel_for(0, pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t row = piece * kNormPiece;
        LayerNormGradRows at = first;
        at.x += row * width;
        at.means += row;
        at.scales += row;
        at.grad_y += row * width;
        at.dx += row * width;
        if (at.dw != nullptr) {
          at.dw += piece * width;
        }
        if (at.db != nullptr) {
          at.db += piece * width;
        }
        layer_norm_grad_rows(at, std::min(kNormPiece, rows - row), width);
      }
    });
    return {dx,
            dw.defined() ? dw.sum(0) : at::Tensor(),
            db.defined() ? db.sum(0) : at::Tensor(),
            at::Tensor()};
  }
};

// Whether `weight` fits the last axis of x; if not, libtorch's operator says why.
bool fits(const at::Tensor& x, const at::Tensor& weight) {
  return x.dim() > 0 && weight.dim() == 1 && weight.size(0) == x.size(-1) &&
         weight.scalar_type() == x.scalar_type();
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  if (is_fused("rms_norm", x) && fits(x, weight)) {
    return RmsNorm::apply(x, weight, eps);
  }
  return at::rms_norm(x, {x.size(-1)}, weight, eps);
}

std::tuple<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x,
                                                const at::Tensor& delta,
                                                const at::Tensor& weight,
                                                double eps) {
  if (is_fused("rms_norm", x) && fits(x, weight) && delta.sizes() == x.sizes() &&
      delta.scalar_type() == x.scalar_type()) {
    auto both = AddRmsNorm::apply(x, delta, weight, eps);
    return {both[0], both[1]};
  }
  at::Tensor h = x + delta;
  at::Tensor y = rms_norm(h, weight, eps);
  return {h, y};
}

at::Tensor layer_norm(const at::Tensor& x,
                      const std::optional<at::Tensor>& weight,
                      const std::optional<at::Tensor>& bias,
                      double eps) {
  const std::optional<at::Tensor> w = weight && weight->defined() ? weight : std::nullopt;
  const std::optional<at::Tensor> b = bias && bias->defined() ? bias : std::nullopt;
  if (is_fused("layer_norm", x) && x.dim() > 0 && (!w || fits(x, *w)) && (!b || fits(x, *b))) {
    return LayerNorm::apply(x, w, b, eps);
  }
  TORCH_CHECK(x.dim() > 0, "tenon::layer_norm: x has no axes; expected [..., D]");
  return at::layer_norm(x, {x.size(-1)}, weight, bias, eps);
}

std::optional<NormAgain> norm_of(const at::Tensor& y) {
  auto made = saved_by<RmsNorm>(y, 0);
  made = made ? std::move(made) : saved_by<AddRmsNorm>(y, 1);
  const bool is_layer_norm = !made.has_value();
  made = made ? std::move(made) : saved_by<LayerNorm>(y, 0);
  if (!made) {
    return std::nullopt;
  }
  return NormAgain{.is_layer_norm = is_layer_norm,
                   .eps = made->context->saved_data["eps"].toDouble(),
                   .x = made->saved[0],
                   .weight = made->saved[1],
                   .bias = is_layer_norm ? made->saved[4] : at::Tensor()};
}

at::Tensor compute_again(const NormAgain& norm) {
  const at::Tensor& x = norm.x;
  if (norm.is_layer_norm) {
    return at::GradMode::is_enabled()
               ? at::layer_norm(x, {x.size(-1)}, norm.weight, norm.bias, norm.eps)
               : layer_normed(x, norm.weight, norm.bias, norm.eps).y;
  }
  return at::GradMode::is_enabled() ? at::rms_norm(x, {x.size(-1)}, norm.weight, norm.eps)
                                    : normed(x, norm.weight, norm.eps).y;
}

}  // namespace tenon
