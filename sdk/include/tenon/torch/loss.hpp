// SPDX-License-Identifier: Apache-2.0
//
// Losses on at::Tensor.
#ifndef TENON_TORCH_LOSS_HPP
#define TENON_TORCH_LOSS_HPP

#include <tenon/cpp/loss.hpp>
#include <tenon/torch/tensor.hpp>

#include <vector>

namespace tenon {

class TorchLoss : public AnyLoss {
 public:
  static constexpr bool kHandWritten = false;

  /* Number of items: a scalar f64 on exec's device. Inputs are absent where optional, and outputs
   * of models where `count_from_batch` was said.  Threads [step] */
  virtual at::Tensor count(const Exec& exec, const TorchInputs& inputs) = 0;
  /* The sum over the items: a scalar f32 (f64 under precision fp64) on exec's device; recorded by
   * autograd.  Threads [step] */
  virtual at::Tensor compute(const Exec& exec, const TorchInputs& inputs) = 0;

 private:
  tenon_tensor* call_count(const Exec& exec, const TensorList& inputs) override {
    return call_torch([&] { return wrap(exec.host(), count(exec, torch_inputs(inputs))); });
  }
  tenon_tensor* call_compute(const Exec& exec, const TensorList& inputs) override {
    return call_torch([&] { return wrap(exec.host(), compute(exec, torch_inputs(inputs))); });
  }

 protected:
  static TorchInputs torch_inputs(const TensorList& inputs) {
    return {inputs.handles(), inputs.size()};
  }
};

/* A loss with its own gradient: autograd records nothing. */
class HandWrittenTorchLoss : public TorchLoss {
 public:
  static constexpr bool kHandWritten = true;

  /* Gradient of the sum by each input, times the scalar `grad_sum`; undefined where there is none.
   * Threads [step], after `compute` with the same inputs */
  virtual std::vector<at::Tensor> backward(const Exec& exec,
                                           const TorchInputs& inputs,
                                           const at::Tensor& grad_sum) = 0;

 private:
  void call_backward(const Exec& exec,
                     const TensorList& inputs,
                     const tenon_tensor* grad_sum,
                     tenon_tensor** grad_inputs_own) override {
    call_torch([&] {
      const std::vector<at::Tensor> grads = backward(exec, torch_inputs(inputs), unwrap(grad_sum));
      TENON_CHECK(grads.size() == inputs.size(),
                  "backward gave ",
                  grads.size(),
                  " gradients for ",
                  inputs.size(),
                  " inputs");
      for (size_t i = 0; i < grads.size(); ++i) {
        grad_inputs_own[i] = wrap(exec.host(), grads[i]);
      }
    });
  }
};

}  // namespace tenon

#endif
