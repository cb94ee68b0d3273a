// SPDX-License-Identifier: Apache-2.0
//
// Where a model's values that are rows of tables come from, and where their gradients go: what the
// model runner needs of tables. The tables themselves are host/embedding's.
// Threads: the train thread.
#pragma once

#include "host/tensor/batch.hpp"
#include "host/tensor/exec_frame.hpp"

#include <cstdint>

namespace tenon {

class RowSource {
 public:
  virtual ~RowSource() = default;

  // How a microbatch looks rows up. Only kTrain inserts rows and counts what it sees; kReplay is
  // for a microbatch of training that is run once more.
  enum class Lookup { kTrain, kEvaluate, kReplay };

  // A microbatch begins: the lookups whose ids are columns of the batch may be begun. `batch` is
  // null on a rank that has no part in it, but takes part in what ranks do together.
  virtual void begin(const Batch* batch, const CallPlace& place, Lookup lookup) = 0;

  // The rows for value `v` of the graph, pooled as it says. `ids` is undefined where they are a
  // column of the batch; on a rank without a part this is called with undefined `ids` too, and
  // gives an undefined tensor.
  // Shapes   ids [B] or [B, n], i64; gives [B, dim], [B, n, dim] or [B, length, dim], fp32
  virtual at::Tensor rows(uint32_t v, const at::Tensor& ids) = 0;

  // The gradient of what `rows` gave for `v` in this microbatch: whole, once, undefined where there
  // is none.
  // Shapes  as the rows
  virtual void take_grad(uint32_t v, const at::Tensor& grad) = 0;
};

}  // namespace tenon
