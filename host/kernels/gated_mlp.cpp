// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/gated_mlp.hpp"

#include "host/kernels/first_order.hpp"
#include "host/kernels/fused.hpp"
#include "host/kernels/gated_product.hpp"
#include "host/kernels/kept_input.hpp"
#include "host/kernels/linear.hpp"
#include "host/kernels/linear_map.hpp"
#include "host/kernels/products.hpp"
#include "host/kernels/swiglu.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// The whole layer, which keeps x and gate_up. Backward computes swiglu(gate_up) again: a pass that
// costs little beside the products, and saves a third of the layer's memory.
class GatedMlp : public torch::autograd::Function<GatedMlp> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x,
                            const at::Tensor& gate,
                            const at::Tensor& up,
                            const at::Tensor& down) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor gate_up = product_forward(as_rows(x), {gate, up}, std::nullopt);
    torch::autograd::variable_list saved = {gate, up, down, gate_up};
    keep_input(*context, x, any_requires_grad({gate, up}), saved);
    context->save_for_backward(std::move(saved));
    return with_axes_of(product_forward(swiglu(gate_up), down, std::nullopt), x);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    check_first_order("gated_mlp");
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor& gate = saved[0];
    const at::Tensor& up = saved[1];
    const at::Tensor& down = saved[2];
    const at::Tensor& gate_up = saved[3];
    const at::Tensor g_MN = as_rows(grads[0]);
    torch::autograd::variable_list out(4);  // by x, gate, up, down
    if (context->needs_input_grad(3)) {
      out[3] = product_grad_weight(g_MN, swiglu(gate_up));
    }
    const bool by_weights = context->needs_input_grad({{1, 3}});
    if (!by_weights && !context->needs_input_grad(0)) {
      return out;
    }
    const at::Tensor grad = swiglu_grad(gate_up, product_grad_input(g_MN, down));
    if (context->needs_input_grad(0)) {
      out[0] = with_axes_of(product_grad_input(grad, {gate, up}), grads[0]);
    }
    if (by_weights) {
      const at::Tensor x_MK = kept_input(*context, saved, 4);
      const at::Tensor grad_NK = product_grad_weight(grad, x_MK);
      out[1] = grad_NK.narrow(0, 0, gate.size(0));
      out[2] = grad_NK.narrow(0, gate.size(0), up.size(0));
    }
    return out;
  }
};

// Whether shapes and dtypes are right; libtorch's operators say what is wrong with others.
bool is_layer(const at::Tensor& x,
              const at::Tensor& gate,
              const at::Tensor& up,
              const at::Tensor& down) {
  const auto is_matrix = [&x](const at::Tensor& weight) {
    return weight.dim() == 2 && weight.numel() > 0 && weight.scalar_type() == x.scalar_type() &&
           weight.device() == x.device();
  };
  return x.dim() >= 2 && is_matrix(gate) && is_matrix(up) && is_matrix(down) &&
         gate.size(1) == x.size(-1) && down.size(1) == gate.size(0);
}

}  // namespace

at::Tensor gated_mlp(const at::Tensor& x,
                     const at::Tensor& gate,
                     const at::Tensor& up,
                     const at::Tensor& down,
                     std::string_view activation) {
  TORCH_CHECK(gate.sizes() == up.sizes(),
              "tenon::gated_mlp: gate is ",
              gate.sizes(),
              " and up is ",
              up.sizes(),
              "; they must have the same shape");
  const bool is_own = activation == "silu" && is_fused("gated_mlp", x);
  if (is_own && !has_stand_in({gate, up, down}) && is_layer(x, gate, up, down)) {
    return GatedMlp::apply(x, gate, up, down);
  }
  if (is_own) {
    const at::Tensor gated = linear(x, {gate}, {}, "none");
    return linear(gated_product(gated, linear(x, {up}, {}, "none")), {down}, {}, "none");
  }
  return linear(
      linear(x, {gate}, {}, activation) * linear(x, {up}, {}, "none"), {down}, {}, "none");
}

}  // namespace tenon
