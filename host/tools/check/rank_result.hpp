// SPDX-License-Identifier: Apache-2.0
//
// What one block gives on one rank, for checks that compare ranks that share its work with one rank
// that runs it alone.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/tools/check/model_trial.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tenon {

struct RankResult {
  std::vector<at::Tensor> outputs;
  std::vector<AuxLoss> aux;
  std::vector<at::Tensor> buffers;  // after the call
  BlockGradients gradients;         // zeros where there are none; empty without a backward
};

enum class BlockBackward { kNone, kOutputsOnly, kAll };  // kAll: and auxiliary losses

// Runs a block, and its backward.
// Shapes  weights: by output, its gradient
// Errors  those of the block
RankResult run_block(ModelTrial& trial,
                     uint32_t b,
                     const std::vector<at::Tensor>& inputs,
                     const std::vector<at::Tensor>& weights,
                     const BlockCall& call,
                     BlockBackward backward);

}  // namespace tenon
