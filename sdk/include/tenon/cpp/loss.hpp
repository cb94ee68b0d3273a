// SPDX-License-Identifier: Apache-2.0
//
// Losses without libtorch. Those with it derive from TorchLoss (tenon/torch/loss.hpp).
#ifndef TENON_CPP_LOSS_HPP
#define TENON_CPP_LOSS_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/cpp/exec.hpp>
#include <tenon/cpp/ports.hpp>
#include <tenon/cpp/tensor.hpp>
#include <tenon/loss.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tenon {

/* What a loss says of itself; the calls chain. */
class LossInfo {
 public:
  /* An input, which `count` and `compute` get in the order of these calls. `dtype` is a dtype or a
   * class. */
  LossInfo& port(std::string name, Axes axes, uint32_t dtype) {
    ports_.add(std::move(name), std::move(axes), dtype, 0);
    return *this;
  }
  /* The same, absent where the batch does not have it. */
  LossInfo& optional_port(std::string name, Axes axes, uint32_t dtype) {
    ports_.add(std::move(name), std::move(axes), dtype, TENON_PORT_OPTIONAL);
    return *this;
  }
  /* TENON_ADDITIVE_*: along which axis parts may be summed. */
  LossInfo& additive_over(uint32_t axis) {
    additive_over_ = axis;
    return *this;
  }
  /* `count` reads batch fields alone; model outputs are then absent from it. */
  LossInfo& count_from_batch() {
    flags_ |= TENON_LOSS_COUNT_FROM_BATCH;
    return *this;
  }
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

/* What the table calls; derive from Loss or TorchLoss instead. */
class AnyLoss : public Component {
 public:
  using Kind = AnyLoss;
  static constexpr const char* kKind = "loss";
  static constexpr const char* kInterfaceId = TENON_LOSS_ID;

  /* Threads [main], once */
  virtual void describe(LossInfo& info) = 0;

  virtual tenon_tensor* call_count(const Exec&, const TensorList&) = 0;
  virtual tenon_tensor* call_compute(const Exec&, const TensorList&) = 0;
  virtual void call_backward(const Exec&, const TensorList&, const tenon_tensor*, tenon_tensor**) {
    TENON_FAIL(TENON_UNSUPPORTED, "no_backward", "this loss has no backward of its own");
  }

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
                                const tenon_tensor* const* inputs,
                                size_t num_inputs,
                                tenon_tensor** out_count_own) noexcept {
    return call_on<AnyLoss>(self, [&](AnyLoss& loss) {
      TENON_CHECK(inputs != nullptr && out_count_own != nullptr, "an argument of count is null");
      *out_count_own =
          loss.call_count(Exec(loss.host(), exec), TensorList(loss.host(), inputs, num_inputs));
    });
  }
  static tenon_status* on_compute(void* self,
                                  const tenon_exec* exec,
                                  const tenon_tensor* const* inputs,
                                  size_t num_inputs,
                                  tenon_tensor** out_sum_own) noexcept {
    return call_on<AnyLoss>(self, [&](AnyLoss& loss) {
      TENON_CHECK(inputs != nullptr && out_sum_own != nullptr, "an argument of compute is null");
      *out_sum_own =
          loss.call_compute(Exec(loss.host(), exec), TensorList(loss.host(), inputs, num_inputs));
    });
  }
  static tenon_status* on_backward(void* self,
                                   const tenon_exec* exec,
                                   const tenon_tensor* const* inputs,
                                   size_t num_inputs,
                                   const tenon_tensor* grad_sum,
                                   tenon_tensor** grad_inputs_own) noexcept {
    return call_on<AnyLoss>(self, [&](AnyLoss& loss) {
      TENON_CHECK(inputs != nullptr && grad_sum != nullptr && grad_inputs_own != nullptr,
                  "an argument of backward is null");
      loss.call_backward(Exec(loss.host(), exec),
                         TensorList(loss.host(), inputs, num_inputs),
                         grad_sum,
                         grad_inputs_own);
    });
  }

  std::unique_ptr<LossInfo> info_;
};

/* A loss made of operators (op.hpp): autograd records `compute`. */
class Loss : public AnyLoss {
 public:
  static constexpr bool kHandWritten = false;

  /* Number of items: a scalar f64 on exec's device. Inputs are absent where optional, and outputs
   * of models where `count_from_batch` was said.  Threads [step] */
  virtual Tensor count(const Exec& exec, const TensorList& inputs) = 0;
  /* The sum over the items: a scalar f32 (f64 under precision fp64) on exec's device.  Threads
   * [step] */
  virtual Tensor compute(const Exec& exec, const TensorList& inputs) = 0;

 private:
  tenon_tensor* call_count(const Exec& exec, const TensorList& inputs) override {
    return count(exec, inputs).release();
  }
  tenon_tensor* call_compute(const Exec& exec, const TensorList& inputs) override {
    return compute(exec, inputs).release();
  }
};

/* A loss with its own gradient: `compute` may do with the data what it likes. */
class HandWrittenLoss : public Loss {
 public:
  static constexpr bool kHandWritten = true;

  /* Gradient of the sum by each input, times `grad_sum`: one entry an input, absent (a default
   * Tensor) where there is none.  Threads [step], after `compute` with the same inputs */
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
                "backward gave ",
                grads.size(),
                " gradients for ",
                inputs.size(),
                " inputs");
    for (size_t i = 0; i < grads.size(); ++i) {
      grad_inputs_own[i] = grads[i].release();
    }
  }
};

}  // namespace tenon

#endif
