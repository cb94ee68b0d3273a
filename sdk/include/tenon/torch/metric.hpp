// SPDX-License-Identifier: Apache-2.0
//
// Metrics on at::Tensor. <tenon/metric.h> defines the contract.
#ifndef TENON_TORCH_METRIC_HPP
#define TENON_TORCH_METRIC_HPP

#include <tenon/cpp/metric.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/torch/tensor.hpp>

#include <cstddef>
#include <vector>

TENON_NAMESPACE_BEGIN

/* The states of a call, in declaration order. Change them with in-place operators (`add_`,
 * `copy_`); never replace them.
 *
 * Errors   TENON_INVALID for an index out of range
 * Threads  those of the call, and only during it
 * Owner    borrowed until the call returns */
class TorchStates {
 public:
  TorchStates(const Host& host,
              tenon_tensor* const* handles,
              size_t size,
              tenon_tensor** appended_own = nullptr)
      : host_(&host), handles_(handles), size_(size), appended_own_(appended_own) {}
  size_t size() const { return size_; }
  const at::Tensor& operator[](size_t i) const {
    TENON_CHECK(
        i < size_, "state index ", i, " is out of range (the metric has ", size_, " states)");
    return unwrap(handles_[i]);
  }
  /* Appends rows to CONCAT state i; at most once per `update`.
   *
   * Errors   TENON_INVALID for any other state or call */
  void append(size_t i, const at::Tensor& rows) {
    TENON_CHECK(appended_own_ != nullptr && i < size_ && appended_own_[i] == nullptr,
                "cannot append rows to state ",
                i,
                ": not a CONCAT state, already appended, or not in update");
    appended_own_[i] = wrap(*host_, rows);
  }

 private:
  const Host* host_;
  tenon_tensor* const* handles_;
  size_t size_;
  tenon_tensor** appended_own_;
};

/* A metric on at::Tensor. */
class TorchMetric : public AnyMetric {
 public:
  /* Adds one microbatch to the states. Autograd never records it. It must not wait for the device.
   *
   * Shapes   inputs in the order of the ports; absent if optional and not provided
   * Errors   TENON_INVALID if shapes do not match
   * Threads  [step]
   * Owner    inputs and states are borrowed until return */
  virtual void update(const Exec& exec, const TorchInputs& inputs, TorchStates& states) = 0;
  /* Computes the metric's values from the merged states, in declaration order. It may wait for the
   * device.
   *
   * Units    natural units, for example 0.97 for 97%; NaN if there is no data
   * Errors   any exception ends the run
   * Threads  [step], on rank 0 only
   * Owner    states are borrowed until return */
  virtual std::vector<double> compute(const Exec& exec, const TorchInputs& states) = 0;
  /* Merges the states of the next rank or data range into `states`, in place. Only TENON_REDUCE_OWN
   * states are present. The operation must be associative; `states` is the left operand.
   *
   * Errors   any exception ends the run; by default TENON_UNSUPPORTED
   * Threads  [step]
   * Owner    all arguments are borrowed until return */
  virtual void merge(const Exec& /*exec*/, TorchStates& /*states*/, const TorchInputs& /*others*/) {
    fail_without_merge();
  }
  /* Resets states that need more than their `init` value, which they already hold.
   *
   * Errors   any exception ends the run
   * Threads  [step]
   * Owner    states are borrowed until return */
  virtual void reset(const Exec& /*exec*/, TorchStates& /*states*/) {}

 private:
  void call_update(const Exec& exec,
                   const TensorList& inputs,
                   tenon_tensor* const* states,
                   tenon_tensor** appended_own) override {
    call_torch([&] {
      TorchStates list(exec.host(), states, num_states(), appended_own);
      update(exec, TorchInputs(inputs.handles(), inputs.size()), list);
    });
  }
  void call_merge(const Exec& exec,
                  tenon_tensor* const* states,
                  const tenon_tensor* const* others) override {
    call_torch([&] {
      TorchStates list(exec.host(), states, num_states());
      merge(exec, list, TorchInputs(others, num_states()));
    });
  }
  std::vector<double> call_compute(const Exec& exec, const TensorList& states) override {
    return call_torch([&] { return compute(exec, TorchInputs(states.handles(), states.size())); });
  }
  void call_reset(const Exec& exec, tenon_tensor* const* states) override {
    call_torch([&] {
      TorchStates list(exec.host(), states, num_states());
      reset(exec, list);
    });
  }
};

TENON_NAMESPACE_END

#endif
