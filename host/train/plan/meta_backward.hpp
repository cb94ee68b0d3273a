// SPDX-License-Identifier: Apache-2.0
//
// Calls a hand-written backward of a block on meta tensors, for the memory that it allocates.
// Threads: [main].
#pragma once

#include "host/plugin/model_proxy.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tenon {

// What a backward of a block gets.
struct MetaBackward {
  uint32_t block = 0;             // the model's number of it
  std::vector<at::Tensor> saved;  // by its forward
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;  // of its outputs
  std::vector<uint32_t> wants_input;  // by input: 1 if its gradient is asked for
  std::vector<uint32_t> wants_parameter;
};

// Returns the gradients of inputs and parameters.
// Errors  those of the plugin
std::vector<at::Tensor> call_backward(const ModelProxy& model,
                                      const tenon_exec& exec,
                                      const MetaBackward& call);

}  // namespace tenon
