// SPDX-License-Identifier: Apache-2.0
//
// silu(gate) * up of two halves that lie side by side, with a backward that writes both gradients
// into one tensor, as the product before it wants them.
//
// Source: Shazeer, GLU Variants Improve Transformer (2020).
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

class CpuSwiglu : public torch::autograd::Function<CpuSwiglu> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& gate_up) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const int64_t width = gate_up.size(-1) / 2;
    context->save_for_backward({gate_up});
    return at::silu(gate_up.narrow(-1, 0, width)).mul_(gate_up.narrow(-1, width, width));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const at::Tensor gate_up = context->get_saved_variables()[0];
    const int64_t width = gate_up.size(-1) / 2;
    const at::Tensor gate = gate_up.narrow(-1, 0, width);
    const at::Tensor up = gate_up.narrow(-1, width, width);
    at::Tensor out = at::empty_like(gate_up);
    at::Tensor grad_gate = out.narrow(-1, 0, width);
    at::Tensor grad_up = out.narrow(-1, width, width);
    at::silu_out(grad_up, gate);
    grad_up.mul_(grads[0]);
    at::silu_backward_out(grad_gate, at::mul(grads[0], up), gate);
    return {out};
  }
};
