// SPDX-License-Identifier: Apache-2.0
//
// Matrix products in fp32 on a CPU, by oneDNN instead of the BLAS that libtorch calls for them: on
// machines where that BLAS leaves half of the vector width unused, they take half the time. Several
// weights with one input are one product.
#pragma once

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// libtorch's inner product by oneDNN: y = x w^T for x [M, K] and w [N, K], of any strides.
class OneDnn {
 public:
  // False where this libtorch is built without it, or it is switched off.
  static bool is_available() { return op().has_value() && at::globalContext().userEnabledMkldnn(); }

  static at::Tensor product(const at::Tensor& x_MK, const at::Tensor& w_NK) {
    torch::jit::Stack stack;
    stack.reserve(6);
    stack.emplace_back(x_MK);
    stack.emplace_back(w_NK);
    stack.emplace_back();  // no bias
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

// Whether the kernels of this folder serve a tensor: dense fp32 on a CPU, with elements, and no
// autocast that would have a say.
inline bool cpu_kernels_serve(const at::Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() == at::kFloat && x.numel() > 0 &&
         !at::autocast::is_autocast_enabled(at::kCPU) && OneDnn::is_available();
}

// y = x [w0; w1; w2]^T; w1 and w2 may be absent. The weights are put together anew in backward, so
// that no copy of them outlives a call.
class CpuLinear : public torch::autograd::Function<CpuLinear> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x,
                            const at::Tensor& w0,
                            const std::optional<at::Tensor>& w1,
                            const std::optional<at::Tensor>& w2) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({x, w0, w1.value_or(at::Tensor()), w2.value_or(at::Tensor())});
    std::vector<int64_t> shape = x.sizes().vec();
    const at::Tensor y_MN = OneDnn::product(
        flat(x), joined({w0, w1.value_or(at::Tensor()), w2.value_or(at::Tensor())}));
    shape.back() = y_MN.size(1);
    return y_MN.view(shape);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor x_MK = flat(saved[0]);
    const at::Tensor g_MN = flat(grads[0]);
    torch::autograd::variable_list out(saved.size());
    if (context->needs_input_grad(0)) {
      const at::Tensor w_NK = joined({saved[1], saved[2], saved[3]});
      out[0] = OneDnn::product(g_MN, w_NK.t()).view(saved[0].sizes());
    }
    bool wants_weights = false;
    for (size_t i = 1; i < saved.size(); ++i) {
      wants_weights = wants_weights || (saved[i].defined() && context->needs_input_grad(i));
    }
    if (wants_weights) {
      // oneDNN is faster with the shorter side first.
      const at::Tensor grad_NK = g_MN.size(1) > x_MK.size(1)
                                     ? OneDnn::product(x_MK.t(), g_MN.t()).t()
                                     : OneDnn::product(g_MN.t(), x_MK.t());
      int64_t row = 0;
      for (size_t i = 1; i < saved.size() && saved[i].defined(); ++i) {
        out[i] = grad_NK.narrow(0, row, saved[i].size(0));
        row += saved[i].size(0);
      }
    }
    return out;
  }

 private:
  static at::Tensor flat(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }
  static at::Tensor joined(std::vector<at::Tensor> weights) {
    while (!weights.back().defined()) {
      weights.pop_back();
    }
    return weights.size() == 1 ? weights[0] : at::cat(weights);
  }
};

inline at::Tensor cpu_linear(const at::Tensor& x,
                             const at::Tensor& w0,
                             const std::optional<at::Tensor>& w1 = std::nullopt,
                             const std::optional<at::Tensor>& w2 = std::nullopt) {
  return CpuLinear::apply(x, w0, w1, w2);
}
