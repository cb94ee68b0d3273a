// SPDX-License-Identifier: Apache-2.0
//
// Pieces of parameters with what an optimizer keeps for them, allocated as the host does it.
#pragma once

#include <tenon/ports.h>

#include "host/plugin/optimizer_proxy.hpp"
#include "host/tensor/handle.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <utility>
#include <vector>

#include "tests/plugins/made_component.hpp"

namespace tenon {

class Pieces {
 public:
  Pieces(const OptimizerProxy& optimizer, std::vector<at::Tensor> values)
      : optimizer_(optimizer), parameters(std::move(values)) {
    for (const SlotSpec& slot : optimizer.info().slots) {
      for (const at::Tensor& parameter : parameters) {
        const auto dtype = slot.dtype == TENON_CLASS_PARAM
                               ? parameter.scalar_type()
                               : static_cast<at::ScalarType>(slot.dtype);
        slots.push_back(at::full(optimizer.info().slot_shape(slot, parameter.sizes().vec()),
                                 slot.init,
                                 parameter.options().dtype(dtype)));
      }
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      steps.push_back(at::zeros({}, at::kFloat));
    }
  }

  // Where found_inf is 1 the host leaves `steps` alone.
  void update(const std::vector<at::Tensor>& grads, double lr, const at::Tensor& found_inf = {}) {
    const bool is_skipped = found_inf.defined() && found_inf.item<float>() == 1;
    std::vector<const tenon_tensor*> grad_handles;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!is_skipped) {
        steps[i].add_(1);
      }
      grad_handles.push_back(borrow(grads[i]));
    }
    const Handles handles = lend();
    const at::Tensor rate = at::scalar_tensor(lr, at::kDouble);
    tenon_update_args args{};
    args.struct_size = sizeof args;
    args.num_pieces = parameters.size();
    args.parameters = handles.parameters.data();
    args.grads = grad_handles.data();
    args.slots = handles.slots.data();
    args.steps = handles.steps.data();
    args.lr = borrow(rate);
    args.found_inf = found_inf.defined() ? borrow(found_inf) : nullptr;
    const c10::NoGradGuard no_grad;
    optimizer_.update(make_exec(optimizer_.instance()), args);
  }

  // Returns the values of evaluation; `parameters` keep those of training.
  std::vector<at::Tensor> evaluation_values() {
    std::vector<at::Tensor> kept;
    for (const at::Tensor& parameter : parameters) {
      kept.push_back(parameter.clone());
    }
    const Handles handles = lend();
    tenon_evaluation_values_args args{};
    args.struct_size = sizeof args;
    args.num_pieces = parameters.size();
    args.parameters = handles.parameters.data();
    args.slots = handles.slots.data();
    args.steps = handles.steps.data();
    const c10::NoGradGuard no_grad;
    optimizer_.evaluation_values(make_exec(optimizer_.instance()), args);
    std::vector<at::Tensor> values;
    for (size_t i = 0; i < parameters.size(); ++i) {
      values.push_back(parameters[i].clone());
      parameters[i].copy_(kept[i]);
    }
    return values;
  }

 private:
  struct Handles {
    std::vector<tenon_tensor*> parameters;
    std::vector<tenon_tensor*> slots;
    std::vector<const tenon_tensor*> steps;
  };
  Handles lend() {
    Handles handles;
    for (at::Tensor& parameter : parameters) {
      handles.parameters.push_back(borrow_mutable(parameter));
    }
    for (at::Tensor& slot : slots) {
      handles.slots.push_back(borrow_mutable(slot));
    }
    for (const at::Tensor& step : steps) {
      handles.steps.push_back(borrow(step));
    }
    return handles;
  }

  const OptimizerProxy& optimizer_;

 public:
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> slots;
  std::vector<at::Tensor> steps;
};

}  // namespace tenon
