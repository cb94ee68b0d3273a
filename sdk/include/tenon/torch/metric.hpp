// SPDX-License-Identifier: Apache-2.0
//
// Metrics on at::Tensor.
#ifndef TENON_TORCH_METRIC_HPP
#define TENON_TORCH_METRIC_HPP

#include <tenon/cpp/metric.hpp>
#include <tenon/torch/tensor.hpp>

#include <cstddef>
#include <vector>

namespace tenon {

/* The states of a call, borrowed, in the order that `describe` gave. They are changed by in-place
 * operators (`add_`, `copy_`), never replaced. */
class TorchStates {
 public:
  TorchStates(const Host& host,
              tenon_tensor* const* handles,
              size_t size,
              tenon_tensor** appended_own = nullptr)
      : host_(&host), handles_(handles), size_(size), appended_own_(appended_own) {}
  size_t size() const { return size_; }
  const at::Tensor& operator[](size_t i) const {
    TENON_CHECK(i < size_, "there are ", size_, " states, asked for was number ", i);
    return unwrap(handles_[i]);
  }
  /* New rows of a state of CONCAT; once a call of `update`. */
  void append(size_t i, const at::Tensor& rows) {
    TENON_CHECK(appended_own_ != nullptr && i < size_ && appended_own_[i] == nullptr,
                "state number ",
                i,
                " cannot be appended to here");
    appended_own_[i] = wrap(*host_, rows);
  }

 private:
  const Host* host_;
  tenon_tensor* const* handles_;
  size_t size_;
  tenon_tensor** appended_own_;
};

class TorchMetric : public AnyMetric {
 public:
  /* Takes one microbatch into the states; not recorded by autograd, and it must not wait for the
   * device.  Threads [step] */
  virtual void update(const Exec& exec, const TorchInputs& inputs, TorchStates& states) = 0;
  /* The figures of these states, in the order of `describe`; NaN where there is no data.
   * Threads [step], on rank 0 alone */
  virtual std::vector<double> compute(const Exec& exec, const TorchInputs& states) = 0;
  /* Merges what comes next into `states`: those of TENON_REDUCE_OWN, the others are absent.
   * Threads [step] */
  virtual void merge(const Exec& /*exec*/, TorchStates& /*states*/, const TorchInputs& /*others*/) {
    fail_without_merge();
  }
  /* Changes states at their start, where their `init` does not say it all.  Threads [step] */
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

}  // namespace tenon

#endif
