// SPDX-License-Identifier: Apache-2.0
//
// Losses on torch::stable::Tensor, for plugins of lane `stable` that run with all libtorch releases
// from 2.11 on. <tenon/loss.h> defines the contract.
#ifndef TENON_TORCH_STABLE_LOSS_HPP
#define TENON_TORCH_STABLE_LOSS_HPP

#include <tenon/cpp/loss.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/torch_stable/tensor.hpp>

#include <vector>

TENON_NAMESPACE_BEGIN

/* A loss on torch::stable::Tensor, differentiated by autograd. */
class StableTorchLoss : public AnyLoss {
 public:
  static constexpr bool kHandWritten = false;

  /* Counts the items of one microbatch: returns an f64 scalar on exec's device.
   *
   * Shapes   inputs in the order of the ports; absent if optional and not provided. With
   *          `count_from_batch`, model outputs are absent
   * Errors   TENON_INVALID if shapes do not match
   * Threads  [step]
   * Owner    inputs are borrowed until return */
  virtual torch::stable::Tensor count(const Exec& exec, const StableInputs& inputs) = 0;
  /* Sums the loss of one microbatch: returns a scalar on exec's device, f32 (f64 in precision
   * fp64). Autograd records the call.
   *
   * Shapes   inputs in the order of the ports; absent if optional and not provided
   * Errors   TENON_INVALID if shapes do not match
   * Threads  [step]
   * Owner    inputs are borrowed until return */
  virtual torch::stable::Tensor compute(const Exec& exec, const StableInputs& inputs) = 0;

 private:
  tenon_tensor* call_count(const Exec& exec, const TensorList& inputs) override {
    return call_stable([&] { return wrap(exec.host(), count(exec, stable_inputs(inputs))); });
  }
  tenon_tensor* call_compute(const Exec& exec, const TensorList& inputs) override {
    return call_stable([&] { return wrap(exec.host(), compute(exec, stable_inputs(inputs))); });
  }

 protected:
  static StableInputs stable_inputs(const TensorList& inputs) {
    return {inputs.handles(), inputs.size()};
  }
};

/* A loss with a hand-written gradient, which libtorch's stable ABI alone cannot express. Autograd
 * records nothing, so `compute` may read data by pointer. */
class HandWrittenStableTorchLoss : public StableTorchLoss {
 public:
  static constexpr bool kHandWritten = true;

  /* Returns the gradient of the sum with respect to each input, times the scalar `grad_sum`.
   *
   * Shapes   one entry per input, of the input's shape; a default Tensor, which is undefined, for
   *          an input without gradient
   * Errors   TENON_INVALID if shapes do not match
   * Threads  [step], after `compute` with the same inputs
   * Owner    inputs are borrowed until return */
  virtual std::vector<torch::stable::Tensor> backward(const Exec& exec,
                                                      const StableInputs& inputs,
                                                      const torch::stable::Tensor& grad_sum) = 0;

 private:
  void call_backward(const Exec& exec,
                     const TensorList& inputs,
                     const tenon_tensor* grad_sum,
                     tenon_tensor** grad_inputs_own) override {
    call_stable([&] {
      const std::vector<torch::stable::Tensor> grads =
          backward(exec, stable_inputs(inputs), to_stable(grad_sum));
      TENON_CHECK(grads.size() == inputs.size(),
                  "backward returned ",
                  grads.size(),
                  " gradients (expected one per input, ",
                  inputs.size(),
                  ")");
      for (size_t i = 0; i < grads.size(); ++i) {
        grad_inputs_own[i] = wrap(exec.host(), grads[i]);
      }
    });
  }
};

TENON_NAMESPACE_END

#endif
