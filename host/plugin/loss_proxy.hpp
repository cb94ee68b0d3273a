// SPDX-License-Identifier: Apache-2.0
//
// The host's proxy for a loss (contract: loss.h).

#pragma once

#include <tenon/loss.h>

#include "host/plugin/instance.hpp"
#include "host/plugin/port_spec.hpp"
#include "host/tensor/handle.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tenon {

struct LossInfo {
  uint32_t additive_over = TENON_ADDITIVE_NONE;
  bool counts_from_batch = false;  // TENON_LOSS_COUNT_FROM_BATCH
  bool is_divisible = false;       // TENON_LOSS_DIVISIBLE
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
    tenon_loss_count_args args{.struct_size = sizeof(tenon_loss_count_args),
                               .inputs = inputs,
                               .num_inputs = num_inputs,
                               .out_count_own = nullptr};
    call(
        "count", args.out_count_own, [&] { return table_->count(instance_.self(), &exec, &args); });
    return args.out_count_own;
  }

  // Returns the sum of the loss over one microbatch: like count(), but [] f32 or f64.
  tenon_tensor* compute(const tenon_exec& exec,
                        const tenon_tensor* const* inputs,
                        std::size_t num_inputs) const {
    tenon_loss_compute_args args{.struct_size = sizeof(tenon_loss_compute_args),
                                 .inputs = inputs,
                                 .num_inputs = num_inputs,
                                 .out_sum_own = nullptr};
    call("compute", args.out_sum_own, [&] {
      return table_->compute(instance_.self(), &exec, &args);
    });
    return args.out_sum_own;
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
    const tenon_loss_backward_args args{.struct_size = sizeof(tenon_loss_backward_args),
                                        .inputs = inputs,
                                        .num_inputs = num_inputs,
                                        .grad_sum = grad_sum,
                                        .grad_inputs_own = grad_inputs_own};
    instance_.call("backward", [&] { return table_->backward(instance_.self(), &exec, &args); });
  }

 private:
  // Calls `function`, which stores a handle in `result_own`. Releases the handle if the call fails.
  //
  // Errors   PluginError; plugin.bad_result if there is no result, or no valid handle
  template <class Body>
  void call(const char* function, tenon_tensor*& result_own, Body&& body) const {
    try {
      instance_.call(function, std::forward<Body>(body));
    } catch (const Error&) {
      release_if_handle(result_own);
      throw;
    }
    check_result(function, result_own);
  }
  void check_result(const char* function, const tenon_tensor* result_own) const;

  ComponentInstance instance_;
  const tenon_loss* table_;
  LossInfo info_;
  bool has_backward_;
};

}  // namespace tenon
