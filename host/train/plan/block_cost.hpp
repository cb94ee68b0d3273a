// SPDX-License-Identifier: Apache-2.0
//
// What the blocks of a model cost for a batch of a given shape: sizes of what they make, bytes that
// they keep for their backward, operations. The model says it (`infer`), or else each block is run
// on meta tensors, forward and backward, where sizes are computed and values are not.
// Invariants: no memory for a parameter, a batch or an activation is allocated, except the leaves
// of one materialized block at a time; the model can only be planned with afterwards, not run.
// Threads: [main]; nothing else allocates meta tensors meanwhile.
#pragma once

#include "host/model/graph.hpp"
#include "host/tensor/exec_frame.hpp"

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tenon {

class ModelProxy;

// A field of a microbatch.
struct PlannedField {
  std::string name;
  at::ScalarType dtype = at::kLong;
  std::vector<int64_t> shape;

  int64_t bytes() const;
};

struct BlockCost {
  enum class Source {
    kDeclared,  // by the model
    kMeasured,  // on meta tensors
    kGuessed    // neither could be had: `why`
  };
  Source source = Source::kDeclared;
  std::string why;  // where it is guessed

  double forward_flops = 0;
  double backward_flops = 0;  // without those of a recompute
  int64_t output_bytes = 0;   // of all outputs
  int64_t saved_bytes = 0;    // beside inputs, outputs, parameters and buffers
  int64_t working_bytes = 0;  // the most that its backward holds for itself, results included
  std::vector<int64_t> bytes_of_output;  // by output, as other blocks see them
};

struct CostQuestion {
  std::vector<PlannedField> fields;    // of a microbatch
  int64_t num_samples = 1;             // in it: the axis B
  at::ScalarType stored = at::kFloat;  // of TENON_CLASS_PARAM
  at::ScalarType seen = at::kFloat;
  std::function<bool(uint32_t p)> is_trainable = {};
  ExecBase base = {};  // of the run: device, dtypes
};

// By block, in their order.
// Errors  model.field_missing; model.unknown_shape for a value that no declaration and no run gives
//         a shape to; what `infer` returns
std::vector<BlockCost> block_costs(ModelProxy& model,
                                   const ModelGraph& graph,
                                   const CostQuestion& question);

}  // namespace tenon
