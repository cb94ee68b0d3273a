// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/gated_product.hpp"

#include "host/kernels/first_order.hpp"
#include "host/kernels/products.hpp"
#include "host/kernels/saved_by.hpp"
#include "host/kernels/swiglu.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace tenon {
namespace {

class GatedProduct : public torch::autograd::Function<GatedProduct> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& gate_in,
                            const at::Tensor& up_in) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor gate = as_rows(gate_in).contiguous();
    const at::Tensor up = as_rows(up_in).contiguous();
    context->save_for_backward({gate, up});
    return swiglu(gate, up).view(gate_in.sizes());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    check_first_order("gated_mlp");
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor g = as_rows(grads[0]).contiguous();
    const SwigluGrads by = swiglu_grad(saved[0], saved[1], g);
    return {by.gate.view(grads[0].sizes()), by.up.view(grads[0].sizes())};
  }
};

}  // namespace

at::Tensor gated_product(const at::Tensor& gate, const at::Tensor& up) {
  return GatedProduct::apply(gate, up);
}

std::optional<GatedFactors> gated_factors_of(const at::Tensor& y) {
  const auto made = saved_by<GatedProduct>(y, 0);
  return made ? std::optional(GatedFactors{made->saved[0], made->saved[1]}) : std::nullopt;
}

at::Tensor compute_again(const GatedFactors& factors) {
  return at::GradMode::is_enabled() ? at::silu(factors.gate) * factors.up
                                    : swiglu(factors.gate, factors.up);
}

}  // namespace tenon
