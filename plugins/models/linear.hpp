// SPDX-License-Identifier: Apache-2.0
//
// Linear layers. In fp32 on a CPU they call oneDNN instead of the BLAS that libtorch uses. On
// machines where that BLAS uses half of the vector width, this halves the time. Several weights
// with one input become one product.
//
// Letters in tensor names: M input rows, K input width, N output width.
#pragma once

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

/* libtorch's oneDNN linear operator: y = x w^T + b for x [M, K], w [N, K] with any strides, and
 * optional b [N]. */
class OneDnn {
 public:
  /* False if this libtorch is built without oneDNN, or oneDNN is disabled. */
  static bool is_available() { return op().has_value() && at::globalContext().userEnabledMkldnn(); }

  /* Whether oneDNN handles a tensor: fp32 on a CPU, not empty, and no active autocast. */
  static bool serves(const at::Tensor& x) {
    return x.device().is_cpu() && x.scalar_type() == at::kFloat && x.numel() > 0 &&
           !at::autocast::is_autocast_enabled(at::kCPU) && is_available();
  }

  static at::Tensor product(const at::Tensor& x_MK,
                            const at::Tensor& w_NK,
                            const std::optional<at::Tensor>& b_N) {
    torch::jit::Stack stack;
    stack.reserve(6);
    stack.emplace_back(x_MK);
    stack.emplace_back(w_NK);
    stack.emplace_back(b_N);
    stack.emplace_back(std::string("none"));
    stack.emplace_back(c10::List<std::optional<at::Scalar>>());
    stack.emplace_back();
    op()->callBoxed(&stack);
    return std::move(stack[0]).toTensor();
  }

 private:
  static const std::optional<c10::OperatorHandle>& op() {
    static const std::optional<c10::OperatorHandle> found = find();
    return found;
  }
  static std::optional<c10::OperatorHandle> find() {
    auto op = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    const bool usable = op.has_value() && at::globalContext().hasMKLDNN() &&
                        op->hasKernelForDispatchKey(c10::DispatchKey::CPU) &&
                        op->schema().arguments().size() == 6;
    return usable ? std::optional<c10::OperatorHandle>(*op) : std::nullopt;
  }
};

/* y = x [w0; w1; ...]^T + b, by oneDNN forward and backward. Backward concatenates the weights
 * again, so that no copy of them outlives a call. */
class OneDnnLinear : public torch::autograd::Function<OneDnnLinear> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x,
                            at::TensorList weights,
                            const std::optional<at::Tensor>& bias) {
    const at::AutoDispatchBelowADInplaceOrView below;
    torch::autograd::variable_list saved = {x};
    saved.insert(saved.end(), weights.begin(), weights.end());
    context->save_for_backward(std::move(saved));
    context->saved_data["has_bias"] = bias.has_value();
    std::vector<int64_t> shape = x.sizes().vec();
    const at::Tensor y_MN = OneDnn::product(flat(x), joined(weights), bias);
    shape.back() = y_MN.size(1);
    return y_MN.view(shape);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor x_MK = flat(saved[0]);
    const at::Tensor g_MN = flat(grads[0]);
    const at::TensorList weights = at::TensorList(saved).slice(1);
    // In the argument order of forward: x, weights, bias.
    const size_t bias = 1 + weights.size();
    torch::autograd::variable_list out(bias + 1);
    if (context->needs_input_grad(0)) {
      out[0] = OneDnn::product(g_MN, joined(weights).t(), std::nullopt).view(saved[0].sizes());
    }
    if (context->saved_data["has_bias"].toBool() && context->needs_input_grad(bias)) {
      out[bias] = g_MN.sum(0);
    }
    if (context->needs_input_grad({{1, bias}})) {
      // The operator copies its first operand, so the much shorter side goes first.
      const at::Tensor grad_NK = g_MN.size(1) >= 2 * x_MK.size(1)
                                     ? OneDnn::product(x_MK.t(), g_MN.t(), std::nullopt).t()
                                     : OneDnn::product(g_MN.t(), x_MK.t(), std::nullopt);
      int64_t row = 0;
      for (size_t i = 0; i < weights.size(); ++i) {
        out[1 + i] = grad_NK.narrow(0, row, weights[i].size(0));
        row += weights[i].size(0);
      }
    }
    return out;
  }

 private:
  static at::Tensor flat(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }
  static at::Tensor joined(at::TensorList weights) {
    return weights.size() == 1 ? weights[0] : at::cat(weights);
  }
};

/* x [w0; w1; ...]^T.
 * Errors   those of oneDNN, unless it handles x */
inline at::Tensor joint_linear(const at::Tensor& x, at::TensorList weights) {
  return OneDnnLinear::apply(x, weights, std::optional<at::Tensor>());
}

/* at::linear, by oneDNN if that is faster: a oneDNN call costs 11 us more than a BLAS call, and
 * vectors gain nothing.
 *
 * Shapes   x [..., K], weight [N, K], bias [N] or undefined */
inline at::Tensor linear_layer(const at::Tensor& x,
                               const at::Tensor& weight,
                               const at::Tensor& bias = {}) {
  constexpr int64_t kLeastSide = 8;
  constexpr int64_t kLeastProducts = 1 << 21;
  const bool is_large =
      x.dim() > 1 && weight.dim() == 2 && x.numel() * weight.size(0) >= kLeastProducts &&
      std::min({x.numel() / x.size(-1), weight.size(0), weight.size(1)}) >= kLeastSide;
  if (is_large && OneDnn::serves(x) && weight.scalar_type() == at::kFloat) {
    return OneDnnLinear::apply(
        x, at::TensorList(weight), bias.defined() ? std::optional(bias) : std::nullopt);
  }
  return at::linear(x, weight, bias);
}

}  // namespace tenon
