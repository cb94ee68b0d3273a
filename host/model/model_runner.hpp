// SPDX-License-Identifier: Apache-2.0
//
// Runs a model block by block: forward in the order of the graph, each block under a
// separate autograd graph, and backward as one reverse loop. It knows no loss and no optimizer.
// Under autocast, blocks run in it, forward and recompute, and what they put out is widened to the
// dtype that was declared before anybody else sees it. Invariants: a block sees detached inputs; a
// recompute sees the same bits as the forward; gradients of a value with several users are summed
// from the last user to the first, as one graph would do it. Threads: owned and driven by the train
// thread.
#pragma once

#include "host/model/block_runner.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

class ModelProxy;
class ShardedParameters;
class RowSource;

// Checks that a dataset's fields feed the model: names, dtypes, axes.
// Errors  model.field_missing, model.field_mismatch: name both sides
void check_model_fields(const ModelGraph& graph,
                        const std::vector<FieldInfo>& fields,
                        const std::string& dataset);

enum class RecomputeMode { kNone, kBlocks };

// The values that the last block makes, where it can be run by pieces of T: it is tokenwise, all
// that it reads and makes has an axis T, and nothing of it comes from a table. Empty where it
// cannot.
std::vector<uint32_t> tail_outputs(const ModelGraph& graph);

class ModelRunner {
 public:
  // `flow` brings the parameters that blocks need; null where all of them are here, always. `rows`
  // brings the values that come from tables; null where there are none.
  ModelRunner(ModelProxy& model,
              ParameterStore& store,
              const ExecBase& base,
              RecomputeMode recompute,
              ShardedParameters* flow = nullptr,
              RowSource* rows = nullptr);
  ~ModelRunner();
  ModelRunner(const ModelRunner&) = delete;
  ModelRunner& operator=(const ModelRunner&) = delete;

  enum class Extent { kWhole, kAllButTail };

  // Runs all blocks on one microbatch, or all but the last one. In training it keeps what backward
  // needs, until `backward` or `clear`.
  void forward(const Batch& batch, const CallPlace& place, Extent extent = Extent::kWhole);
  // What a rank without a sample does in place of `forward`: it takes part in what ranks do
  // together, and calls no block.
  void forward_idle(const CallPlace& place, Extent extent = Extent::kWhole);

  // ---- the tail: the last block, by pieces of T ----

  // Where tail_outputs(graph) is not empty. The size of T in the microbatch under way; after
  // `forward` without the tail.
  int64_t tail_length() const;
  // Runs the tail on positions [begin, begin + length) of T. What it makes are the values until
  // `backward_tail` or the next piece.
  void forward_tail(int64_t begin, int64_t length);
  // Takes the gradients of these values through the tail. After the piece that ends T, the inputs
  // of the tail have theirs, as after a backward of the whole block but for the order of sums.
  void backward_tail();

  // Runs the blocks again on a microbatch that `forward` has seen, as a recompute: nothing is kept
  // for a backward, and no buffer changes. Calls `seen` after each block, when the block's inputs
  // and outputs can be read by `value`; a true ends it. Leaves nothing behind.
  void replay(const Batch& batch,
              const CallPlace& place,
              const std::function<bool(uint32_t block)>& seen);

  // A value after forward, detached; undefined if no block made it.
  const at::Tensor& value(uint32_t v) const { return values_[v]; }
  // True if some trainable parameter lies upstream of the value.
  bool needs_grad(uint32_t v) const { return needs_grad_[v]; }
  const std::vector<AuxLoss>& aux_losses() const { return aux_losses_; }

  // Adds a gradient of a value, before backward. Losses do so from the last to the first.
  void add_grad(uint32_t v, at::Tensor grad);
  // Runs backward of all blocks and adds the gradients of parameters to the store.
  // `aux_scale` multiplies each auxiliary loss beside its weight / count, and so does `loss_scale`
  // where it is defined.
  // `ends_step`: the step has no other backward after this one.
  // Shapes  loss_scale [], on the store's device
  void backward(double aux_scale, const at::Tensor& loss_scale = {}, bool ends_step = true);
  // In place of `backward`, after `forward_idle`.
  void backward_idle(bool ends_step = true);

  // Drops everything that the last forward kept.
  void clear();

 private:
  void begin(const Batch& batch, const CallPlace& place);
  void read_rows(uint32_t b);
  void hand_back_rows(uint32_t b);
  uint32_t num_run(Extent extent) const;
  uint32_t tail() const { return static_cast<uint32_t>(graph_.blocks.size() - 1); }
  uint32_t salt(uint32_t b) const;
  void backward_block(uint32_t b, const AuxScale& aux_scale);
  at::Tensor field_of(uint32_t v, const Batch& batch) const;
  bool is_recomputed(uint32_t b) const;

  ModelProxy& model_;
  ParameterStore& store_;
  const ModelGraph& graph_;
  at::ScalarType compute_dtype_;
  RecomputeMode recompute_;
  ShardedParameters* flow_;
  RowSource* rows_;
  std::vector<std::vector<uint32_t>> lookups_;  // by block: values of tables that it reads first
  CallPlace place_;

  struct Piece {
    uint32_t number = 0;  // from 1; 0: none is under way
    int64_t begin = 0;    // along T
    int64_t length = 0;
  };
  Piece piece_;
  std::vector<at::Tensor> tail_grads_;  // by input of the tail: the pieces so far

  std::vector<bool> needs_grad_;  // by value
  BlockRunner blocks_;
  std::vector<at::Tensor> values_;
  std::vector<at::Tensor> grads_;  // by value: the sum so far
  std::vector<BlockTape> tapes_;
  std::vector<AuxLoss> aux_losses_;
};

}  // namespace tenon
