// SPDX-License-Identifier: Apache-2.0
//
// Calls one block of a model through the ABI: its forward under a separate autograd graph, and its
// backward, by autograd or hand-written. Checks the results of the plugin. Knows nothing of the
// other blocks. Models that are not trained always run as in evaluations.
// Threads: owned and driven by the train thread.
#pragma once

#include "host/distributed/ranks/rank_role.hpp"
#include "host/kernels/kept_attention.hpp"
#include "host/kernels/tensor_region.hpp"
#include "host/model/block_weights.hpp"
#include "host/model/model_list.hpp"
#include "host/model/parameter_store.hpp"
#include "host/model/sequence_group.hpp"
#include "host/model/step_sums.hpp"
#include "host/tensor/exec_frame.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

class GenerationProxy;

class ShardedParameters;

// An auxiliary loss that a block added in the forward.
struct AuxLoss {
  std::string name;
  at::Tensor sum;    // scalar, with its autograd graph, if one was recorded; or shares [X]
  at::Tensor count;  // scalar; or loads and tokens [X + 1]
  double weight = 1;
  std::optional<size_t> balance = {};  // number of the balance loss in its block
  uint32_t block = 0;
  // `count` over all ranks that divide the positions; undefined: `count`.
  at::Tensor whole_count = {};
  bool is_counted = true;  // false: another rank counts the same loss
};

// Returns sum and count of an auxiliary loss of a microbatch, for a mean over the step. The loads
// of the step must be complete. Shapes: [] each
std::pair<at::Tensor, at::Tensor> sum_and_count(const StepSums& sums, const AuxLoss& aux);
// Adds the loads of the balance losses of a microbatch to the sums, except those that another rank
// counts.
void add_loads(StepSums& sums, const std::vector<AuxLoss>& losses);

// Data that a block's forward stores for its backward.
struct BlockTape {
  std::vector<at::Tensor> inputs;   // leaf tensors passed to the block; undefined if absent
  std::vector<at::Tensor> outputs;  // as the block returned them
  std::vector<at::Tensor> saved;    // for a hand-written backward
  std::vector<at::Tensor> buffers;  // that the forward read, for a recompute
  std::vector<AuxLoss> aux;
  bool has_aux = false;         // stays true after `aux` is dropped for a recompute
  std::vector<int64_t> pieces;  // as Pass::pieces
  KeptAttention attention;      // with Pass::keeps_attention
  // Call arguments, kept to save allocations.
  std::vector<const tenon_tensor*> input_handles;
  std::vector<const tenon_tensor*> parameter_handles;
  std::vector<const tenon_tensor*> buffer_handles;

  // Drops the tensors and auxiliary losses of the forward.
  void clear();
};

// A step of generation: new positions of a sequence, and what a block keeps of earlier ones.
struct BlockStep {
  int64_t first = 0;               // position of the first new token
  int64_t capacity = 0;            // positions that the sequence may get
  std::vector<at::Tensor> caches;  // undefined before the first step; replaced by the call
};

// Multipliers of an auxiliary loss, in addition to weight / count.
struct AuxScale {
  double factor = 1;      // not of balance losses, which are over the whole step
  at::Tensor loss_scale;  // []; undefined: none
};

// A gradient of a value, to be added to the gradients that the value already has.
struct ValueGrad {
  uint32_t value = 0;
  at::Tensor grad;
};

class BlockRunner {
 public:
  // `needs_grad[v]` is true if a trainable parameter or a lookup lies upstream of value v.
  // Errors: model.bad_graph for a hand-written block of a model without backward
  // Owner: all references outlive this object
  BlockRunner(ModelList models,
              ParameterStore& store,
              const ExecBase& base,
              const std::vector<bool>& needs_grad)
      : BlockRunner(std::move(models), store, store.graph(), base, needs_grad) {}
  // Runs the blocks of another graph, whose parameters, buffers and parametrizations have the
  // indices that they have in the graph of the store.
  BlockRunner(ModelList models,
              ParameterStore& store,
              const ModelGraph& graph,
              const ExecBase& base,
              const std::vector<bool>& needs_grad);

  // Lets blocks with `is_whole`, by block, run on whole sequences, while ranks divide those of
  // other blocks. Such blocks draw the random numbers of the first of these ranks, which alone
  // counts what they sum. Call it before the first microbatch.
  void run_whole(std::vector<bool> is_whole, uint32_t rank);

  // Lets the ranks of a tensor group run the divided blocks together: each call of such a block,
  // and the backward of its nodes, is in a region. `ranks` is borrowed. Call it before the first
  // microbatch.
  void divide(TensorRanks& ranks) { tensor_ranks_ = &ranks; }

  // Returns a tape with the handles of the parameters and buffers of block `b`.
  BlockTape make_tape(uint32_t b) const;

  // Starts a microbatch of `num_samples` samples. `divided` is what its ranks hold of the
  // sequences, and borrowed until the backward of the microbatch; null: they are whole.
  void begin(const CallPoint& point, int64_t num_samples, const DividedSequences* divided);

  struct Pass {
    bool records = false;       // runs under autograd
    bool is_recompute = false;  // changes no buffers; reads those that the forward read
    uint32_t salt = 0;          // for random numbers, see ExecFrame::seed_for
    // Positions of T that each rank of the tensor group has in this call (Extent::kPiece); empty:
    // all have the same. Such calls draw other random numbers on each rank.
    std::vector<int64_t> pieces = {};
    // Keeps the results of attention in the tape, or, in a recompute, takes them from it.
    bool keeps_attention = false;
  };

  // Calls the block on `tape.inputs`; fills the outputs, saved tensors and auxiliary losses.
  // Errors: plugin.bad_result for outputs or buffers that differ from their declarations; errors of
  // the plugin, with the block's name
  void forward(uint32_t b, const Pass& pass, BlockTape& tape);

  // Adds the gradients of the block's parameters to the store. Returns the gradients of its inputs
  // in the order in which one graph over the whole model would add them.
  // Shapes: grads[i] has the shape of output i; undefined means no gradient
  // Errors: as forward
  std::vector<ValueGrad> backward(uint32_t b,
                                  uint32_t salt,
                                  BlockTape& tape,
                                  const std::vector<at::Tensor>& grads,
                                  const AuxScale& aux_scale);

  // Calls the block's step on `tape.inputs`, the values at new positions; fills the outputs and the
  // caches. Records nothing for a backward.
  // Errors: as forward; plugin.bad_result for a cache that the first step does not return
  void step(uint32_t b, const GenerationProxy& generation, BlockTape& tape, BlockStep& step);

  // Fails if the block of the trained model has added an auxiliary loss in a call on a part of its
  // input: the loss of the whole is unknown. `how`: "tiles (train.tile)"
  // Errors: plugin.bad_result
  void refuse_aux_losses(uint32_t b, const BlockTape& tape, const char* how) const;

  // True if a trainable parameter or a lookup lies upstream of the value.
  bool needs_grad(uint32_t v) const { return needs_grad_[v]; }

  // What the trained model sums over a step. Forwards in training add to the sums of buffers.
  StepSums& sums() { return sums_; }
  const StepSums& sums() const { return sums_; }
  // Ends a training step: adds up the sums of all ranks, and sets the buffers that follow from
  // them. `sharded` is null if there are no other ranks.
  // Errors: as forward
  void end_step(ShardedParameters* sharded);

  // Returns the dtype of a value outside its block, or nothing if the block may choose it.
  std::optional<at::ScalarType> border_dtype(uint32_t v) const;
  // Returns an output for the next block: detached and, under autocast, converted to its border
  // dtype.
  at::Tensor at_border(uint32_t v, const at::Tensor& output) const;

 private:
  struct Call;
  struct HandGrads;

  void check_output(uint32_t b, size_t i, const at::Tensor& output) const;
  std::string wrong_dtype(uint32_t v, const at::Tensor& output) const;
  std::string wrong_shape(const ModelValue& value, const at::Tensor& output) const;
  std::string wrong_shape(const ModelValue& value,
                          const std::vector<Axis>& axes,
                          const at::Tensor& output) const;
  std::vector<Axis> axes_of_part(const ModelValue& value) const;
  // Returns a new region for a call of block `b`; null if this rank alone runs it; the region of
  // the caller if the runner divides no blocks.
  TensorRegionPtr new_region(uint32_t b, const std::vector<int64_t>& pieces) const;
  // Sets the random numbers of a call of block `b`. Returns the seed.
  uint64_t seed_call(uint32_t b, uint32_t salt, const std::vector<int64_t>& pieces);
  RankIndex tensor_rank() const;
  void lend_buffers(uint32_t b, bool is_recompute, BlockTape& tape);
  void take_buffers(uint32_t b, const BlockTape& tape, const std::vector<at::Tensor>& next);
  void check_buffer(uint32_t b, size_t i, const at::Tensor& next) const;
  bool is_whole(uint32_t b) const { return !is_whole_.empty() && is_whole_[b]; }
  bool counts(uint32_t b) const { return !is_whole(b) || rank_ == 0; }
  void share_aux_losses(uint32_t b, BlockTape& tape);
  void add_grad(uint32_t b, const BlockTape& tape, uint32_t parameter, const at::Tensor& grad);
  at::Tensor seed_of(const AuxLoss& aux, const AuxScale& scale) const;
  void check_grad(uint32_t b,
                  const at::Tensor& grad,
                  at::IntArrayRef shape,
                  const std::string& name) const;
  std::vector<uint32_t> trained_leaves(uint32_t b) const;
  std::vector<ValueGrad> backward_by_autograd(uint32_t b,
                                              BlockTape& tape,
                                              const std::vector<at::Tensor>& grads,
                                              const AuxScale& aux_scale);
  HandGrads call_backward(uint32_t b,
                          uint32_t salt,
                          const BlockTape& tape,
                          const std::vector<at::Tensor>& grads);
  std::vector<ValueGrad> backward_by_hand(uint32_t b,
                                          uint32_t salt,
                                          BlockTape& tape,
                                          const std::vector<at::Tensor>& grads);

  const ComponentIdentity& identity_of(uint32_t b) const {
    return models_.of(graph_.blocks[b]).instance().identity();
  }
  BlockWeights::Call weights_for(uint32_t b, uint32_t salt, bool is_recompute, BlockTape& tape) {
    return {weights_[b], salt, is_recompute, tape.parameter_handles};
  }
  ExecFrame& frame_of(uint32_t b) { return frames_[graph_.blocks[b].model]; }

  const ModelList models_;
  ParameterStore& store_;
  const ModelGraph& graph_;
  const std::vector<bool>& needs_grad_;
  std::vector<ExecFrame> frames_;      // by model
  std::vector<BlockWeights> weights_;  // by block
  StepSums sums_;
  at::ScalarType compute_dtype_;
  std::optional<at::ScalarType> autocast_dtype_;
  const DividedSequences* divided_ = nullptr;  // of the current microbatch
  std::vector<bool> is_whole_;                 // by block; empty: sequences are not divided
  uint32_t rank_ = 0;                          // among those that divide them
  TensorRanks* tensor_ranks_ = nullptr;        // null: blocks are not divided
  std::optional<int64_t> piece_;               // positions of the current call, if on a piece
  bool is_train_ = true;                       // of the current microbatch
  int64_t num_samples_ = 0;                    // of the current microbatch
};

}  // namespace tenon
