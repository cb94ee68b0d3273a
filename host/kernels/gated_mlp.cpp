// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/gated_mlp.hpp"

#include "host/kernels/first_order.hpp"
#include "host/kernels/fused.hpp"
#include "host/kernels/linear.hpp"
#include "host/kernels/row_math.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <vector>

namespace tenon {
namespace {

// silu(gate) * up of two adjacent halves. Backward writes both gradients into one tensor, the
// layout that the preceding product needs. Each direction is one pass.
class Swiglu : public torch::autograd::Function<Swiglu> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& gate_up_in) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor gate_up = gate_up_in.contiguous();
    const int64_t width = gate_up.size(-1) / 2;
    std::vector<int64_t> shape = gate_up.sizes().vec();
    shape.back() = width;
    at::Tensor y = at::empty(shape, gate_up.options());
    const float* const in = gate_up.const_data_ptr<float>();
    float* const out = y.mutable_data_ptr<float>();
    at::parallel_for(0, y.numel() / width, kGrain, [&](int64_t begin, int64_t end) {
      swiglu_rows(in + begin * 2 * width, out + begin * width, end - begin, width);
    });
    context->save_for_backward({gate_up});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    check_first_order("gated_mlp");
    const at::Tensor gate_up = context->get_saved_variables()[0];
    const at::Tensor g = grads[0].contiguous();
    const int64_t width = g.size(-1);
    at::Tensor grad = at::empty_like(gate_up);
    const float* const in = gate_up.const_data_ptr<float>();
    const float* const by_y = g.const_data_ptr<float>();
    float* const out = grad.mutable_data_ptr<float>();
    at::parallel_for(0, g.numel() / width, kGrain, [&](int64_t begin, int64_t end) {
      swiglu_grad_rows(in + begin * 2 * width,
                       by_y + begin * width,
                       out + begin * 2 * width,
                       end - begin,
                       width);
    });
    return {grad};
  }

 private:
  static constexpr int64_t kGrain = 64;  // rows
};

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
  if (activation == "silu" && is_fused("gated_mlp", x)) {
    return linear(Swiglu::apply(linear(x, {gate, up}, {}, "none")), {down}, {}, "none");
  }
  return linear(
      linear(x, {gate}, {}, activation) * linear(x, {up}, {}, "none"), {down}, {}, "none");
}

}  // namespace tenon
