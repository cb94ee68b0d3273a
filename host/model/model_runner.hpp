// SPDX-License-Identifier: Apache-2.0
//
// Runs a model block by block: forward in the order of the graph, each block under a separate
// autograd graph, and backward as one reverse loop. Knows no loss and no optimizer.
// Autocast applies to forward and recompute inside a block. Outputs are converted to their declared
// dtypes before anything outside the block reads them.
// A recompute repeats the forward of a whole unit (graph.hpp) at once: of its values, only those
// that something outside of it reads are kept between forward and backward.
// Invariants: blocks see detached inputs; a recompute sees the same bits as the forward; gradients
// of a value with several users are summed from the last user to the first, as in a single graph.
// Threads: owned and driven by the train thread.
#pragma once

#include "host/model/block_runner.hpp"
#include "host/model/row_source.hpp"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

class ActivationStore;
class ShardedParameters;

// Checks that a dataset's fields match the model's inputs in name, dtype and axes. The dataset may
// lack optional inputs.
// Errors  model.field_missing, model.field_mismatch, with both sides in the message
void check_model_fields(const ModelGraph& graph,
                        const std::vector<FieldInfo>& fields,
                        const std::string& dataset);

// kSelective: as kBlocks, but results of the host's attention kernel are kept.
enum class RecomputeMode { kNone, kBlocks, kSelective };

// Positions [begin, begin + length) of T, of `positions`.
struct TileRange {
  int64_t begin = 0;
  int64_t length = 0;
  int64_t positions = 0;
};

// Returns the outputs of the blocks that can run in chunks along T (tail_blocks), else an empty
// list.
std::vector<uint32_t> tail_outputs(const ModelGraph& graph);

class ModelRunner {
 public:
  // `sharded` gathers the parameters that blocks need; null if this rank always has all of them.
  // `rows` provides the values that come from tables; null if there are none.
  ModelRunner(ModelList models,
              ParameterStore& store,
              const ExecBase& base,
              RecomputeMode recompute,
              ShardedParameters* sharded = nullptr,
              RowSource* rows = nullptr);
  ~ModelRunner();
  ModelRunner(const ModelRunner&) = delete;
  ModelRunner& operator=(const ModelRunner&) = delete;

  // Except with RecomputeMode::kNone, recomputes only these blocks. By block.
  void recompute_only(std::vector<bool> blocks) { recomputed_blocks_ = std::move(blocks); }
  // Names the values that losses and metrics read: `value` returns only these from then on, if they
  // are inside of a recomputed unit. Without this call, all values are kept.
  void keep_only(const std::vector<uint32_t>& values);
  // Runs the blocks that can (block_tiles.hpp) on at most `positions` positions at a time, and
  // again in backward. Results equal those of whole blocks except for the order of sums.
  void tile_blocks(int64_t positions);
  // Moves what recomputed and tiled units keep for backward to a store. Call it after keep_only:
  // values that it names stay.
  void offload_to(std::unique_ptr<ActivationStore> store);

  enum class Extent { kWhole, kAllButTail };

  // Runs all blocks on one microbatch, or all except the tail. In training, keeps the data for
  // backward until `backward` or `clear`. Drops values that neither a backward nor a reader
  // (ModelValue::is_read) needs as soon as the last block has read them.
  void forward(const Batch& batch, const CallPlace& place, Extent extent = Extent::kWhole);
  // Replaces `forward` on a rank without samples: takes part in collectives, and calls no block.
  void forward_idle(const CallPlace& place, Extent extent = Extent::kWhole);

  // ---- the tail: the last block of each model, in chunks of T ----

  // Returns the size of T in the current microbatch. Requires a `forward` without the tail, and a
  // non-empty tail_outputs(graph).
  int64_t tail_length() const;
  // Runs the tail on positions [begin, begin + length) of T. Its outputs can be read by `value`
  // until `backward_tail`, `drop_tail` or the next chunk.
  void forward_tail(int64_t begin, int64_t length);
  // Drops the outputs of the current chunk, in a pass without a backward.
  void drop_tail();
  // Runs backward of the trained model's tail for the current chunk. After the chunk that ends T,
  // the gradients of the inputs are complete. They equal those of the whole block except for the
  // order of sums.
  void backward_tail();

  // Runs the blocks again on a microbatch that `forward` has processed, as a recompute: stores
  // nothing for a backward, and changes no buffer. Calls `seen` after each block, while `value` can
  // read the inputs and outputs of the block. If `seen` returns true, no further block runs. Drops
  // all values at the end.
  void replay(const Batch& batch,
              const CallPlace& place,
              const std::function<bool(uint32_t block)>& seen,
              RowSource::Lookup lookup = RowSource::Lookup::kReplay);

  // ---- sums over a step (step_sums.hpp) ----

  StepSums& sums() { return blocks_.sums(); }
  // Runs a microbatch that `forward` will process, as a replay, to the last balance loss, and adds
  // its loads to the sums. On a rank without samples, takes part in collectives.
  void count_loads(const Batch& batch, const CallPlace& place);
  // Adds the loads of the last forward to the sums.
  void add_loads();
  // Ends a training step, see BlockRunner.
  void end_step(ShardedParameters* sharded) { blocks_.end_step(sharded); }

  // Returns a value after forward, detached; undefined if it was not computed, is an optional input
  // that the batch lacks, or was not kept (keep_only).
  const at::Tensor& value(uint32_t v) const { return values_[v]; }
  // True if a trainable parameter or a lookup lies upstream of the value.
  bool needs_grad(uint32_t v) const { return facts_.has_gradient(v); }
  const std::vector<AuxLoss>& aux_losses() const { return aux_losses_; }

  // Adds a gradient of a value, before backward. Losses add theirs from the last to the first.
  void add_grad(uint32_t v, at::Tensor grad);
  // Runs backward of all blocks and adds the gradients of parameters to the store. Multiplies each
  // auxiliary loss by weight / count, by `aux_scale` and, if defined, by `loss_scale`. `ends_step`
  // is true for the last backward of a step.
  // Shapes  loss_scale [], on the store's device
  void backward(double aux_scale, const at::Tensor& loss_scale = {}, bool ends_step = true);
  // Replaces `backward` after `forward_idle`.
  void backward_idle(bool ends_step = true);

  // Drops everything that the last forward kept.
  void clear();

 private:
  void begin(const Batch& batch, const CallPlace& place);
  void run_idle(const CallPlace& place, RowSource::Lookup lookup, Extent extent);
  void read_rows(uint32_t b);
  void hand_back_rows(uint32_t b);
  bool is_left_out(uint32_t b, Extent extent) const {
    return extent == Extent::kAllButTail && facts_.is_tail(b);
  }
  void enter_tails();
  void run_tail(uint32_t b);
  void keep_outputs(uint32_t b);
  void drop_read_values(uint32_t b);
  bool is_light(uint32_t b) const { return is_recomputed(b) || is_tiled(b); }
  void move_away(uint32_t b);
  void bring_back(uint32_t b);
  void drop_moved(uint32_t b);
  void check_kept_attention() const;
  bool is_tiled(uint32_t b) const { return !is_piece(b) && tile_ > 0 && tiled_blocks_[b]; }
  std::vector<TileRange> tiles_of(uint32_t b) const;
  at::Tensor kept_input(uint32_t b, size_t i) const;
  uint32_t tile_salt(uint32_t b, size_t tile) const;
  void run_tile(
      uint32_t b, TileRange tile, bool records, uint32_t salt, bool again, BlockTape& piece);
  void forward_tiles(uint32_t b, bool again);
  void backward_tiles(uint32_t b, const std::vector<at::Tensor>& grads, const AuxScale& aux_scale);
  // The last block of the trained model.
  uint32_t tail() const { return static_cast<uint32_t>(graph_.blocks.size() - 1); }
  uint32_t salt(uint32_t b) const;
  void backward_block(uint32_t b, const AuxScale& aux_scale);
  at::Tensor field_of(uint32_t v, const Batch& batch) const;
  // Whether the block runs on a chunk, which is already small.
  bool is_piece(uint32_t b) const { return piece_.number > 0 && b == tail(); }
  bool is_recomputed(uint32_t b) const;
  bool keeps_attention(uint32_t b) const {
    return recompute_ == RecomputeMode::kSelective && is_recomputed(b);
  }
  bool is_dropped(uint32_t v) const;
  void drop_values(const ModelUnit& unit);
  void recompute(uint32_t last);

  const ModelList models_;
  ParameterStore& store_;
  const ModelGraph& graph_;
  at::ScalarType compute_dtype_;
  RecomputeMode recompute_;
  std::vector<bool> recomputed_blocks_;  // empty: all
  std::vector<bool> is_kept_;            // by value; empty: all
  int64_t tile_ = 0;                     // positions; 0: no tiles
  std::vector<bool> tiled_blocks_;       // by block, with tiles
  ShardedParameters* sharded_;
  RowSource* rows_;
  CallPlace place_;

  struct Piece {
    uint32_t number = 0;  // from 1; 0: no chunk is active
    int64_t begin = 0;    // along T
    int64_t length = 0;
  };
  Piece piece_;
  std::vector<at::Tensor> tail_grads_;  // by input of the tail: gradients of chunks so far

  // What is in the store, oldest first, by the unit that reads it last.
  struct Moved {
    ModelUnit unit;
    std::vector<uint32_t> values;
  };
  std::unique_ptr<ActivationStore> offloaded_;  // null: nothing is moved
  std::vector<std::vector<uint32_t>> moves_;    // by block, the last of its unit: values to move
  std::vector<Moved> moved_;
  Moved reloaded_;  // what backward has brought back last

  const GraphFacts facts_;
  BlockRunner blocks_;
  std::vector<at::Tensor> values_;
  std::vector<at::Tensor> grads_;  // by value: the sum so far
  std::vector<BlockTape> tapes_;
  // The first block of the unit that was recomputed last; kNoIndex: none in this backward.
  uint32_t recomputed_unit_ = kNoIndex;
  std::vector<AuxLoss> aux_losses_;
};

}  // namespace tenon
