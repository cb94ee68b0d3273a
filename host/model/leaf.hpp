// SPDX-License-Identifier: Apache-2.0
//
// Inputs of a block as leaves of its own autograd graph.
#pragma once

#include <ATen/core/Tensor.h>

namespace tenon {

// Returns the value without its graph; undefined for an absent optional input.
inline at::Tensor as_leaf(const at::Tensor& value, bool needs_grad) {
  if (!value.defined()) {
    return value;
  }
  at::Tensor leaf = value.detach();
  if (needs_grad && c10::isFloatingType(leaf.scalar_type())) {
    leaf.set_requires_grad(true);
  }
  return leaf;
}

}  // namespace tenon
