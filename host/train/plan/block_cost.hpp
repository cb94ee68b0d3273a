// SPDX-License-Identifier: Apache-2.0
//
// Costs of the blocks of a model for a batch of a given shape: bytes of outputs, bytes kept for
// backward, and operations. The model declares them (`infer`); otherwise each block runs forward
// and backward on meta tensors, which have sizes but no values.
// Invariants: no memory for parameters, batches or activations is allocated, except the leaves of
// one materialized block at a time. Afterwards the model can be planned with, but not run.
// Threads: [main]; no other code allocates meta tensors at the same time.
#pragma once

#include "host/model/graph.hpp"
#include "host/model/model_list.hpp"
#include "host/tensor/exec_frame.hpp"

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tenon {

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
    kGuessed    // both failed; see `why`
  };
  Source source = Source::kDeclared;
  std::string why;  // the reason for a guess; otherwise empty

  double forward_flops = 0;
  double backward_flops = 0;    // without a recompute
  int64_t output_bytes = 0;     // of all outputs
  int64_t saved_bytes = 0;      // for backward; without inputs, outputs, parameters and buffers
  int64_t attention_bytes = 0;  // of saved_bytes: what a selective recompute keeps; if asked for
  int64_t working_bytes = 0;    // peak that its backward allocates, results included
  int64_t product_bytes = 0;    // beside it, at most: by Tenon's own kernels for products
  std::vector<int64_t> bytes_of_output;  // by output, in the dtype that other blocks read
  // By value of GraphFacts::rows_first_read_by: bytes of the table rows of a microbatch.
  std::vector<int64_t> bytes_of_rows;
};

struct CostQuestion {
  std::vector<PlannedField> fields;    // of a microbatch; optional inputs may be missing
  int64_t num_samples = 1;             // of a microbatch: the size of axis B
  at::ScalarType stored = at::kFloat;  // dtype in which TENON_CLASS_PARAM is stored
  at::ScalarType seen = at::kFloat;    // dtype in which blocks read it
  std::function<bool(uint32_t p)> is_trainable = {};
  bool counts_attention = false;
  ExecBase base = {};  // of the run: device, dtypes
};

// Returns the costs by block, in the order of the graph.
// Errors  model.unknown_shape for a value whose shape neither a declaration nor a run provides;
//         errors that `infer` returns
std::vector<BlockCost> block_costs(ModelList models,
                                   const ModelGraph& graph,
                                   const CostQuestion& question);

}  // namespace tenon
