// SPDX-License-Identifier: Apache-2.0
//
// What exists of one microbatch between the start of its forward and the end of its backward:
// values, gradients, tapes, auxiliary losses. Microbatches in flight at the same time share
// parameters, buffers and the sums of the step, and nothing else. ProgramPass fills it. With a
// pipeline, all stages of a rank share it.
// Threads: owned and driven by the train thread.
#pragma once

#include "host/model/block_runner.hpp"
#include "host/model/graph_facts.hpp"
#include "host/model/position_levels.hpp"
#include "host/model/program.hpp"
#include "host/model/row_source.hpp"
#include "host/model/sequence_group.hpp"
#include "host/model/tensor_group.hpp"
#include "host/tensor/batch.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tenon {

// Positions [begin, begin + length) of T on which the losses run; see Program::has_chunks.
struct LossChunk {
  uint32_t number = 0;  // from 1; 0: none is active
  int64_t begin = 0;
  int64_t length = 0;
  bool is_last = false;  // of T
};

class ActivationStore;
class ShardedParameters;
class StageExchange;

// What passes use; borrowed.
struct PassServices {
  ParameterStore& store;
  BlockRunner& blocks;
  ShardedParameters* groups = nullptr;     // null: every rank has all parameters
  RowSource* rows = nullptr;               // null: no tables
  ActivationStore* activations = nullptr;  // null: nothing is moved
  int64_t tile = 0;                        // positions; 0: no tiles
  at::ScalarType compute_dtype = at::kFloat;
  SequenceGroup* sequences = nullptr;  // null: sequences are not divided among ranks
  TensorGroup* tensor = nullptr;       // null: blocks are not divided among ranks
  bool has_pieces = false;             // the ranks of `tensor` divide positions between blocks
  std::vector<Extent> extents = {};    // by block, where ranks divide positions (block_extents)
  StageExchange* exchange = nullptr;   // null: no stage is on another rank
};

class MicrobatchState {
 public:
  // `blocks` runs the blocks of the graph of `facts`. Both outlive the state.
  MicrobatchState(const GraphFacts& facts, const BlockRunner& blocks);

  // ---- for what runs programs ----

  // What a pass runs on.
  struct Start {
    const Program& program;  // of the first stage of this rank
    uint64_t number = 0;     // of the microbatch, for stores that keep several apart
    const Batch& batch;      // without samples: the pass takes part in collectives only
    CallPoint point;
    RowSource::Lookup lookup = RowSource::Lookup::kTrain;
    SequenceGroup* sequences = nullptr;  // if `batch` is a part
    TensorGroup* tensor = nullptr;       // if blocks are divided
    bool has_pieces = false;             // its ranks have pieces of the positions
  };
  // Starts a pass on a state that is clear: sets the values that are fields of the batch, in the
  // compute dtype if they are declared so. Borrows program and batch.
  void start(const Start& start, at::ScalarType compute_dtype);
  // Drops all that a pass has kept, also after an error. `services` are those of the pass.
  void clear(const PassServices& services);

  // ---- for losses, metrics and hooks ----

  // Returns a value, detached. Undefined if it was not computed, is an optional input that the
  // batch lacks, or was dropped. With tensor(), a value with `is_divided` is the part of this rank.
  // It has the positions that extent() says.
  const at::Tensor& value(uint32_t v) const { return values_[v]; }
  // Returns the value with the positions of the part: a collective call of the tensor group if this
  // rank has a piece. Losses and metrics see it.
  at::Tensor value_of_part(uint32_t v) const;
  // Returns the whole of a value, if gather_values was called after it was computed.
  const at::Tensor& whole_value(uint32_t v) const {
    const std::vector<at::Tensor>& whole = divided_.whole_values;
    return v < whole.size() && whole[v].defined() ? whole[v] : values_[v];
  }
  // Gathers the divided values that exist: a collective call of the tensor group.
  void gather_values();
  // True if a trainable parameter or a lookup lies upstream of the value.
  bool needs_grad(uint32_t v) const { return facts_->has_gradient(v); }
  // Of the trained model's blocks, in the order of their calls; sums are detached.
  const std::vector<AuxLoss>& aux_losses() const { return aux_losses_; }
  const CallPoint& point() const { return point_; }
  // What each rank has of the sequences; null if this rank has them whole.
  const DividedSequences* divided() const { return divided_.positions.sequences(); }
  const PositionLevels& positions() const { return divided_.positions; }
  // Returns which positions this rank has of a value: pieces of what blocks make with an axis T,
  // except divided values and what is made in chunks. Fields of the batch are parts.
  Extent extent(uint32_t v) const;
  // The ranks that divide blocks; null if this rank runs them alone.
  TensorGroup* tensor() const { return divided_.tensor; }
  const LossChunk& chunk() const { return chunk_; }

  // Adds a gradient of a value, before the value's maker runs backward. Losses add theirs from the
  // last to the first.
  // Shapes  grad: that of the value
  void add_grad(uint32_t v, at::Tensor grad);
  // Adds the gradient of value_of_part(), the same on all ranks of the tensor group.
  void add_grad_of_part(uint32_t v, at::Tensor grad);

 private:
  friend class ProgramRunner;  // chunks, and the end of a step
  friend class ProgramPass;

  // What a unit has moved to the activation store.
  struct Moved {
    uint32_t last = kNoIndex;  // the last block of the unit
    std::vector<uint32_t> values;
  };
  // What this rank has parts of.
  struct Divided {
    PositionLevels positions = {};
    TensorGroup* tensor = nullptr;              // borrowed; null: blocks are not divided
    std::vector<at::Tensor> whole_values = {};  // by value; empty: none are gathered
  };
  // Inputs of the last block while the losses run in chunks.
  struct ChunkInputs {
    std::vector<at::Tensor> grads = {};  // by input: of the chunks so far
    std::vector<at::Tensor> parts = {};  // by value: what chunks are cut from, if it was gathered
  };
  // Gradients of the inputs of a block, between kBackward and kAddGradients.
  struct Returned {
    uint32_t block = kNoIndex;
    std::vector<ValueGrad> of_inputs;
  };

  const GraphFacts* facts_;
  const Program* program_ = nullptr;  // of the stage that ran last; null: no pass is under way
  uint64_t number_ = 0;               // of the microbatch among all that the runner has started
  int64_t num_samples_ = 0;           // 0: a rank without samples
  const Batch* batch_ = nullptr;      // during the forward of a rank with samples
  CallPoint point_;
  RowSource::Lookup lookup_ = RowSource::Lookup::kTrain;
  Divided divided_;
  bool is_last_microbatch_ = true;
  AuxScale aux_scale_;
  std::unique_ptr<RowPass> rows_;  // null: no lookups
  std::vector<at::Tensor> values_;
  std::vector<at::Tensor> grads_;  // by value: the sum so far
  std::vector<BlockTape> tapes_;   // by block
  std::vector<AuxLoss> aux_losses_;
  Returned returned_;
  LossChunk chunk_;
  ChunkInputs chunk_inputs_;
  std::vector<Moved> moved_;            // oldest first
  std::vector<uint32_t> whole_groups_;  // that this microbatch has gathered
};

}  // namespace tenon
