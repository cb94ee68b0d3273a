// SPDX-License-Identifier: Apache-2.0
//
// The parts of sequences that a function of autograd keeps for its backward.
#pragma once

#include "host/kernels/first_order.hpp"
#include "host/kernels/sequence_parts.hpp"

#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>

namespace tenon {

inline void save_parts(torch::autograd::AutogradContext* context, const SequenceParts* parts) {
  context->saved_data["parts"] = reinterpret_cast<int64_t>(parts);
}

// For the first line of a backward. Refuses second derivatives.
inline const SequenceParts& saved_parts(torch::autograd::AutogradContext* context) {
  check_first_order("attention", "whole sequences (no context parallelism)");
  return *reinterpret_cast<const SequenceParts*>(context->saved_data["parts"].toInt());
}

}  // namespace tenon
