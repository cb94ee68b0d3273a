// SPDX-License-Identifier: Apache-2.0
//
// Runs a model on one sequence of tokens that grows, and returns the logits of its last position.
// With the model's caches (tenon.generation/1), each token is computed once; otherwise, the whole
// sequence runs through the ordinary forward again for each token. Runs only the blocks that the
// logits depend on. Fields that follow from the tokens, and rows of tables, come from
// SequenceInputs. Knows no text and no sampling.
// Invariants: both ways give the same logits, except for rounding; parameters, gradients and
// buffers do not change.
// Threads: owned and driven by the train thread.
#pragma once

#include "host/model/graph.hpp"
#include "host/model/parameter_store.hpp"
#include "host/plugin/generation_proxy.hpp"
#include "host/tensor/exec_frame.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tenon {

class ModelProxy;
class RowSource;
class ShardedParameters;
class StageExchange;
class TensorGroup;
class TextFields;

// What a model reads besides token ids. Both are borrowed, and used by one sequence at a time.
struct SequenceInputs {
  TextFields* fields = nullptr;  // null: none
  RowSource* rows = nullptr;     // only for evaluation; null: the model has no lookups
};

class SequenceRunner {
 public:
  virtual ~SequenceRunner() = default;

  // Appends tokens, and returns the logits of the last position.
  // Shapes  the result is [V], on the CPU, in fp32, or in fp64 if the model computes in it
  // Errors  errors of the model's plugin
  virtual at::Tensor append(const std::vector<int64_t>& ids) = 0;
  // Returns the largest length of a sequence; nothing if only the model knows.
  virtual std::optional<int64_t> max_positions() const = 0;
};

// The blocks to run, if they are not those of the store, and the way to their parameters.
struct SequenceBlocks {
  const ModelGraph* graph = nullptr;  // as for BlockRunner; null: that of the store
  // Gathers the parameters of each block, so that all ranks make the same calls; null if this rank
  // always has all of them.
  ShardedParameters* sharded = nullptr;
  // The ranks that run divided blocks together; null: this rank runs all blocks alone.
  TensorGroup* tensor = nullptr;
  // Messages between the ranks of a pipeline, all of which run the sequence and get its logits;
  // null without a pipeline.
  StageExchange* exchange = nullptr;
};

// Returns a runner for a new sequence of at most `capacity` positions. All are borrowed.
// Errors  generate.not_possible if the model needs other fields, or makes no logits;
//         plugin.bad_result for a description that does not fit the graph; errors of `describe`
std::unique_ptr<SequenceRunner> cached_sequence(ModelProxy& model,
                                                ParameterStore& store,
                                                const ExecBase& base,
                                                const GenerationProxy& generation,
                                                int64_t capacity,
                                                const SequenceInputs& inputs = {},
                                                const SequenceBlocks& blocks = {});
// Same, without caches: needs batch field "input_ids" and output "logits".
std::unique_ptr<SequenceRunner> whole_sequence(ModelProxy& model,
                                               ParameterStore& store,
                                               const ExecBase& base,
                                               const SequenceInputs& inputs = {},
                                               const SequenceBlocks& blocks = {});

}  // namespace tenon
