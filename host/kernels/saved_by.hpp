// SPDX-License-Identifier: Apache-2.0
//
// What a function of autograd keeps of the call that made a tensor.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <optional>

namespace tenon {

struct SavedByOp {
  torch::autograd::AutogradContext* context = nullptr;  // owned by the graph of the tensor
  torch::autograd::variable_list saved;
};

// Returns what `F` keeps if `y` is its output `i`, recorded for autograd; nothing for other
// tensors, after the backward of `F`, and if something that it keeps was written since.
template <class F>
std::optional<SavedByOp> saved_by(const at::Tensor& y, uint32_t i) {
  if (!y.defined() || y.grad_fn() == nullptr || y.output_nr() != i) {
    return std::nullopt;
  }
  auto* const node = dynamic_cast<torch::autograd::CppNode<F>*>(y.grad_fn().get());
  if (node == nullptr) {
    return std::nullopt;
  }
  try {
    return SavedByOp{&node->ctx_, node->ctx_.get_saved_variables()};
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

}  // namespace tenon
