// SPDX-License-Identifier: Apache-2.0
//
// What a model declares of one block by `infer`, without running it: shapes of the outputs,
// operations and memory.
// Threads: [main], [step].
#pragma once

#include "host/model/graph.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/tensor/exec_frame.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tenon {

struct InferredBlock {
  std::vector<std::vector<int64_t>> output_shapes;
  double flops = 0;          // of a forward
  double saved_bytes = 0;    // that a forward keeps for backward, without inputs and outputs
  double working_bytes = 0;  // on top of it, while the block runs
};

// Asks the model of `block`, which must have `infer`. `shapes` are those of the inputs; null for an
// absent one. `lengths` are those of the batch's sequences; if empty, each sample is one. Returns
// nothing if the model does not declare this block.
//
// Errors   those of the plugin, with the block's name; plugin.bad_result for an impossible answer
std::optional<InferredBlock> infer_block(const ModelProxy& model,
                                         const ModelBlock& block,
                                         const ExecBase& base,
                                         const tenon_exec& exec,
                                         const std::vector<const std::vector<int64_t>*>& shapes,
                                         std::span<const int64_t> lengths = {});

}  // namespace tenon
