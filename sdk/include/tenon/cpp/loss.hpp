// SPDX-License-Identifier: Apache-2.0
//
// Losses without libtorch. For losses on at::Tensor, derive from TorchLoss (tenon/torch/loss.hpp).
// <tenon/loss.h> defines the contract.
#ifndef TENON_CPP_LOSS_HPP
#define TENON_CPP_LOSS_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/cpp/exec.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/ports.hpp>
#include <tenon/cpp/tensor.hpp>
#include <tenon/draft/tensor.h>
#include <tenon/loss.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

TENON_NAMESPACE_BEGIN

/* Describes a loss; the calls chain. */
class LossInfo {
 public:
  /* Declares an input. `count` and `compute` receive inputs in declaration order. `dtype` is a
   * dtype or a class; empty `axes` mean any shape. */
  LossInfo& port(std::string name, Axes axes, uint32_t dtype) {
    ports_.add(std::move(name), std::move(axes), dtype, 0);
    return *this;
  }
  /* Declares an input that is absent if nothing provides it. */
  LossInfo& optional_port(std::string name, Axes axes, uint32_t dtype) {
    ports_.add(std::move(name), std::move(axes), dtype, TENON_PORT_OPTIONAL);
    return *this;
  }
  /* Sets the axis along which the sum over parts equals the sum over the whole, TENON_ADDITIVE_*.
   */
  LossInfo& additive_over(uint32_t axis) {
    additive_over_ = axis;
    return *this;
  }
  /* Declares that `count` uses only batch fields; model outputs are then absent from its inputs. */
  LossInfo& count_from_batch() {
    flags_ |= TENON_LOSS_COUNT_FROM_BATCH;
    return *this;
  }
  /* Declares that the loss takes this rank's part of outputs that tensor ranks divide
   * (draft/tensor.h). */
  LossInfo& divisible() {
    flags_ |= TENON_LOSS_DIVISIBLE;
    return *this;
  }
  /* Fills the ABI struct. For the wrapper only. */
  void write(tenon_loss_info& out) const {
    out.additive_over = additive_over_;
    out.flags = flags_;
    out.ports_ref = ports_.data();
    out.num_ports = ports_.size();
  }

 private:
  PortList ports_;
  uint32_t additive_over_ = TENON_ADDITIVE_NONE;
  uint32_t flags_ = 0;
};

/* Base of all losses, called through the ABI table. Derive from Loss or TorchLoss. */
class AnyLoss : public Component {
 public:
  using Kind = AnyLoss;
  static constexpr const char* kKind = "loss";
  static constexpr const char* kInterfaceId = TENON_LOSS_ID;

  /* Describes inputs and properties of the loss.
   *
   * Errors   any exception ends the run before the first step
   * Threads  [main], once, before any other call */
  virtual void describe(LossInfo& info) = 0;

  /* Adapters from ABI handles to `count`, `compute` and `backward` of the derived class, which
   * states Errors, Threads and Owner. For the wrapper only. */
  virtual tenon_tensor* call_count(const Exec&, const TensorList&) = 0;
  virtual tenon_tensor* call_compute(const Exec&, const TensorList&) = 0;
  virtual void call_backward(const Exec&, const TensorList&, const tenon_tensor*, tenon_tensor**) {
    TENON_FAIL(TENON_UNSUPPORTED, "no_backward", "this loss does not override backward");
  }

  /* Returns the ABI table of class T. */
  template <class T>
  static const void* table() {
    static const tenon_loss calls{sizeof(tenon_loss),
                                  on_describe,
                                  on_count,
                                  on_compute,
                                  T::kHandWritten ? on_backward : nullptr};
    return &calls;
  }

 private:
  static tenon_status* on_describe(void* self, tenon_loss_info* out) noexcept {
    return call_on<AnyLoss>(self, [&](AnyLoss& loss) {
      TENON_CHECK(out != nullptr, "out is null");
      loss.info_ = std::make_unique<LossInfo>();
      loss.describe(*loss.info_);
      loss.info_->write(*out);
    });
  }
  static tenon_status* on_count(void* self,
                                const tenon_exec* exec,
                                tenon_loss_count_args* args) noexcept {
    return call_on<AnyLoss>(self, [&](AnyLoss& loss) {
      TENON_CHECK(args != nullptr && (args->inputs != nullptr || args->num_inputs == 0),
                  "an argument of count is null");
      args->out_count_own = loss.call_count(
          Exec(loss.host(), exec), TensorList(loss.host(), args->inputs, args->num_inputs));
    });
  }
  static tenon_status* on_compute(void* self,
                                  const tenon_exec* exec,
                                  tenon_loss_compute_args* args) noexcept {
    return call_on<AnyLoss>(self, [&](AnyLoss& loss) {
      TENON_CHECK(args != nullptr && (args->inputs != nullptr || args->num_inputs == 0),
                  "an argument of compute is null");
      args->out_sum_own = loss.call_compute(
          Exec(loss.host(), exec), TensorList(loss.host(), args->inputs, args->num_inputs));
    });
  }
  static tenon_status* on_backward(void* self,
                                   const tenon_exec* exec,
                                   const tenon_loss_backward_args* args) noexcept {
    return call_on<AnyLoss>(self, [&](AnyLoss& loss) {
      TENON_CHECK(args != nullptr && args->grad_sum != nullptr &&
                      ((args->inputs != nullptr && args->grad_inputs_own != nullptr) ||
                       args->num_inputs == 0),
                  "an argument of backward is null");
      loss.call_backward(Exec(loss.host(), exec),
                         TensorList(loss.host(), args->inputs, args->num_inputs),
                         args->grad_sum,
                         args->grad_inputs_own);
    });
  }

  std::unique_ptr<LossInfo> info_;
};

/* A loss built from operators (op.hpp). Autograd records `compute`. */
class Loss : public AnyLoss {
 public:
  static constexpr bool kHandWritten = false;

  /* Counts the items of one microbatch: returns an f64 scalar on exec's device.
   *
   * Shapes   inputs in the order of the ports; absent if optional and not provided. With
   *          `count_from_batch`, model outputs are absent
   * Errors   TENON_INVALID if shapes do not match
   * Threads  [step]
   * Owner    inputs are borrowed until return */
  virtual Tensor count(const Exec& exec, const TensorList& inputs) = 0;
  /* Sums the loss of one microbatch: returns a scalar on exec's device, f32 (f64 in precision
   * fp64).
   *
   * Shapes   inputs in the order of the ports; absent if optional and not provided
   * Errors   TENON_INVALID if shapes do not match
   * Threads  [step]
   * Owner    inputs are borrowed until return */
  virtual Tensor compute(const Exec& exec, const TensorList& inputs) = 0;

 private:
  tenon_tensor* call_count(const Exec& exec, const TensorList& inputs) override {
    return count(exec, inputs).release();
  }
  tenon_tensor* call_compute(const Exec& exec, const TensorList& inputs) override {
    return compute(exec, inputs).release();
  }
};

/* A loss with a hand-written gradient. Autograd does not record `compute`, which may access data
 * directly. */
class HandWrittenLoss : public Loss {
 public:
  static constexpr bool kHandWritten = true;

  /* Returns the gradient of the sum with respect to each input, times the scalar `grad_sum`.
   *
   * Shapes   one entry per input, of the input's shape; a default Tensor for an input without
   *          gradient
   * Errors   TENON_INVALID if shapes do not match
   * Threads  [step], after `compute` with the same inputs
   * Owner    inputs are borrowed until return */
  virtual std::vector<Tensor> backward(const Exec& exec,
                                       const TensorList& inputs,
                                       const TensorRef& grad_sum) = 0;

 private:
  void call_backward(const Exec& exec,
                     const TensorList& inputs,
                     const tenon_tensor* grad_sum,
                     tenon_tensor** grad_inputs_own) override {
    std::vector<Tensor> grads = backward(exec, inputs, TensorRef(exec.host(), grad_sum));
    TENON_CHECK(grads.size() == inputs.size(),
                "backward returned ",
                grads.size(),
                " gradients (expected one per input, ",
                inputs.size(),
                ")");
    for (size_t i = 0; i < grads.size(); ++i) {
      grad_inputs_own[i] = grads[i].release();
    }
  }
};

TENON_NAMESPACE_END

#endif
