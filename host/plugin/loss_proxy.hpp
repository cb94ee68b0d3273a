// SPDX-License-Identifier: Apache-2.0
//
// The host's proxy for a loss (contract: loss.h).

#pragma once

#include <tenon/loss.h>

#include "host/plugin/instance.hpp"
#include "host/plugin/port_spec.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon {

struct LossInfo {
  uint32_t additive_over = TENON_ADDITIVE_NONE;
  bool counts_from_batch = false;  // TENON_LOSS_COUNT_FROM_BATCH
  std::vector<Port> ports;
};

class LossProxy {
 public:
  // Errors   plugin.missing_interface, plugin.bad_result, PluginError of `describe`
  // Threads  [main]
  explicit LossProxy(ComponentInstance instance);

  const ComponentInstance& instance() const noexcept { return instance_; }
  const LossInfo& info() const noexcept { return info_; }
  bool has_backward() const noexcept { return has_backward_; }

  // Returns the number of items of one microbatch.
  //
  // Shapes   `inputs` in the order of the ports; result [] f64
  // Errors   PluginError; plugin.bad_result if there is no result, or no valid handle
  // Threads  [step]
  // Owner    the caller releases the result
  tenon_tensor* count(const tenon_exec& exec,
                      const tenon_tensor* const* inputs,
                      std::size_t num_inputs) const {
    tenon_tensor* count_own = nullptr;
    instance_.call("count", [&] {
      return table_->count(instance_.self(), &exec, inputs, num_inputs, &count_own);
    });
    return checked("count", count_own);
  }

  // Returns the sum of the loss over one microbatch: like count(), but [] f32 or f64.
  tenon_tensor* compute(const tenon_exec& exec,
                        const tenon_tensor* const* inputs,
                        std::size_t num_inputs) const {
    tenon_tensor* sum_own = nullptr;
    instance_.call("compute", [&] {
      return table_->compute(instance_.self(), &exec, inputs, num_inputs, &sum_own);
    });
    return checked("compute", sum_own);
  }

  // Stores the gradients of the sum of compute(), times `grad_sum`, in `grad_inputs_own`
  // [num_inputs]. Requires has_backward(). If it throws, the caller still owns handles that are
  // already stored.
  //
  // Errors   PluginError
  // Threads  [step]
  void backward(const tenon_exec& exec,
                const tenon_tensor* const* inputs,
                std::size_t num_inputs,
                const tenon_tensor* grad_sum,
                tenon_tensor** grad_inputs_own) const {
    instance_.call("backward", [&] {
      return table_->backward(
          instance_.self(), &exec, inputs, num_inputs, grad_sum, grad_inputs_own);
    });
  }

 private:
  // Returns the handle that `function` returned, if it is one.
  tenon_tensor* checked(const char* function, tenon_tensor* tensor_own) const;

  ComponentInstance instance_;
  const tenon_loss* table_;
  LossInfo info_;
  bool has_backward_;
};

}  // namespace tenon
