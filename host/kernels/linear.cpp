// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/linear.hpp"

#include "host/kernels/autocast.hpp"
#include "host/kernels/kept_input.hpp"
#include "host/kernels/linear_map.hpp"
#include "host/kernels/products.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// y = x [w0; w1; ...]^T + b. Backward joins the weights again, so that no copy of them outlives a
// call.
class Linear : public torch::autograd::Function<Linear> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x,
                            at::TensorList weights,
                            const std::optional<at::Tensor>& bias) {
    const at::AutoDispatchBelowADInplaceOrView below;
    torch::autograd::variable_list saved;
    keep_input(*context, x, any_requires_grad(weights), saved);
    saved.insert(saved.end(), weights.begin(), weights.end());
    context->save_for_backward(std::move(saved));
    context->saved_data["has_bias"] = bias.has_value();
    return with_axes_of(product_forward(as_rows(x), weights, bias), x);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor g_MN = as_rows(grads[0]);
    const at::TensorList weights = at::TensorList(saved).slice(kKeptTensors);
    // In the argument order of forward: x, weights, bias.
    const size_t bias = 1 + weights.size();
    torch::autograd::variable_list out(bias + 1);
    if (context->needs_input_grad(0)) {
      out[0] = with_axes_of(product_grad_input(g_MN, weights), grads[0]);
    }
    if (context->saved_data["has_bias"].toBool() && context->needs_input_grad(bias)) {
      out[bias] = g_MN.sum(0);
    }
    if (context->needs_input_grad({{1, bias}})) {
      const at::Tensor x_MK = kept_input(*context, saved, 0);
      const at::Tensor grad_NK = product_grad_weight(g_MN, x_MK);
      int64_t row = 0;
      for (size_t i = 0; i < weights.size(); ++i) {
        out[1 + i] = weights.size() == 1 ? grad_NK : grad_NK.narrow(0, row, weights[i].size(0));
        row += weights[i].size(0);
      }
    }
    return out;
  }
};

// Whether `Linear` serves: on a CPU, and where autograd would keep a copy that backward makes
// again, which is the joined matrix of several weights, or an input that was gathered.
bool is_own(const at::Tensor& x, at::TensorList weights) {
  if (x.dim() < 2 || x.numel() == 0 ||
      (!x.is_cpu() && weights.size() == 1 && !is_gathered_input(x))) {
    return false;
  }
  for (const at::Tensor& weight : weights) {
    if (weight.dim() != 2 || weight.scalar_type() != x.scalar_type() ||
        weight.device() != x.device() || weight.size(1) != x.size(-1) || weight.numel() == 0) {
      return false;  // libtorch's operator says why
    }
  }
  return true;
}

// x [w0; w1; ...]^T + b, where some of the weights are stand-ins. Neighbors that are matrices stay
// joined. Maps see x in the dtype of autocast, which stays on.
at::Tensor mapped(const at::Tensor& wide,
                  at::TensorList weights,
                  const std::optional<at::Tensor>& bias) {
  const at::Tensor x = AutocastCopies(wide).of(wide);
  std::vector<at::Tensor> parts;
  for (size_t i = 0; i < weights.size();) {
    if (const LinearMap* const map = linear_map_of(weights[i])) {
      TORCH_CHECK(x.dim() >= 1 && x.size(-1) == weights[i].size(1),
                  "tenon::linear: x is ",
                  x.sizes(),
                  " and a weight is ",
                  weights[i].sizes(),
                  "; their last axes must be equal");
      parts.push_back(map->product(x));
      ++i;
      continue;
    }
    size_t end = i + 1;
    while (end < weights.size() && linear_map_of(weights[end]) == nullptr) {
      ++end;
    }
    parts.push_back(linear(x, weights.slice(i, end - i), {}, "none"));
    i = end;
  }
  const at::Tensor y = parts.size() == 1 ? parts[0] : at::cat(parts, -1);
  return bias.has_value() && bias->defined() ? y + bias->to(y.scalar_type()) : y;
}

}  // namespace

at::Tensor activated(at::Tensor x, std::string_view activation) {
  if (activation == "none") {
    return x;
  }
  if (activation == "relu") {
    return at::relu_(x);
  }
  if (activation == "silu") {
    return at::silu(x);
  }
  if (activation == "gelu") {
    return at::gelu(x);
  }
  if (activation == "gelu_tanh") {
    return at::gelu(x, "tanh");
  }
  if (activation == "tanh") {
    return at::tanh(x);
  }
  TORCH_CHECK(
      false,
      "'",
      activation,
      "' is not an activation; use \"none\", \"relu\", \"gelu\", \"gelu_tanh\", \"silu\" or "
      "\"tanh\"");
}

at::Tensor linear(const at::Tensor& x,
                  at::TensorList weights,
                  const std::optional<at::Tensor>& bias,
                  std::string_view activation) {
  TORCH_CHECK(!weights.empty(), "tenon::linear needs at least one weight");
  if (has_stand_in(weights)) {
    return activated(mapped(x, weights, bias), activation);
  }
  const AutocastCopies copies(x);
  const at::Tensor in = copies.of(x);
  const std::vector<at::Tensor> narrow = copies.of(weights);
  const std::optional<at::Tensor> b =
      bias && bias->defined() ? std::optional(copies.of(*bias)) : std::nullopt;
  if (!is_own(in, narrow)) {
    return activated(at::linear(in, joined(narrow), b), activation);
  }
  return activated(Linear::apply(in, at::TensorList(narrow), b), activation);
}

}  // namespace tenon
