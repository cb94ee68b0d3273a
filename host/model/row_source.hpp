// SPDX-License-Identifier: Apache-2.0
//
// The model runner's interface to tables: provides values made of table rows, and receives their
// gradients. host/embedding implements the tables.
// Threads: the train thread.
#pragma once

#include "host/tensor/batch.hpp"
#include "host/tensor/exec_frame.hpp"

#include <cstdint>
#include <memory>

namespace tenon {

// The lookups of one microbatch. Passes of a step may exist at the same time.
class RowPass {
 public:
  virtual ~RowPass() = default;

  // Returns the rows for value `v` of the graph, pooled as declared. `ids` is undefined if they are
  // a column of the batch. A rank without samples passes undefined `ids`, and receives an undefined
  // tensor.
  // Shapes   ids [B] or [B, n], i64; returns [B, dim], [B, n, dim] or [B, length, dim], fp32
  virtual at::Tensor rows(uint32_t v, const at::Tensor& ids) = 0;

  // Receives the full gradient of the result of `rows` for `v` in this microbatch, once. Undefined
  // if there is none.
  // Shapes  as the rows
  virtual void take_grad(uint32_t v, const at::Tensor& grad) = 0;
};

class RowSource {
 public:
  virtual ~RowSource() = default;

  // How a microbatch looks up rows. Only kTrain inserts rows and counts occurrences of ids. kReplay
  // is for a training microbatch that runs again. kPreview is for one that runs before its kTrain
  // pass, and reads the rows that this pass will read.
  enum class Lookup { kTrain, kEvaluate, kReplay, kPreview };

  // Starts a microbatch. Lookups whose ids are columns of the batch may start now. `batch` is null
  // on a rank without samples, which takes part in collectives only. The source outlives the pass.
  virtual std::unique_ptr<RowPass> begin(const Batch* batch,
                                         const CallPoint& point,
                                         Lookup lookup) = 0;
};

}  // namespace tenon
