// SPDX-License-Identifier: Apache-2.0
//
// Runs the programs of a model (program.hpp) on microbatches: forward in the order of the graph,
// each block under a separate autograd graph, losses, and backward in reverse. Knows no loss and no
// optimizer; a LossPort computes losses.
// Autocast applies to forward and recompute inside a block. Outputs are converted to their declared
// dtypes before anything outside the block reads them.
// Invariants: blocks see detached inputs; a recompute sees the same bits as the forward; gradients
// of a value with several users are summed from the last user to the first, as in a single graph.
// A microbatch has the same results whether or not others are in flight, except for state buffers,
// which the forwards of a step change in turn. A pipeline changes no bit.
// Threads: owned and driven by the train thread.
#pragma once

#include "host/model/activation_store.hpp"
#include "host/model/block_runner.hpp"
#include "host/model/microbatch_state.hpp"
#include "host/model/pass_programs.hpp"
#include "host/model/program_pass.hpp"
#include "host/model/row_source.hpp"
#include "host/model/sequence_group.hpp"
#include "host/model/stage_exchange.hpp"
#include "host/model/tensor_group.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace tenon {

class ShardedParameters;

struct RunnerOptions {
  // By block: run its forward again in backward. Flags of a block may exclude it. Empty: none.
  std::vector<bool> recomputed = {};
  bool keeps_attention = false;  // recomputes take the results of the host's attention kernel
  int64_t tile = 0;              // positions per tile of the blocks that can; 0: no tiles
  int64_t loss_chunk = 0;        // positions of T per chunk of the losses; 0: no chunks
  // Values that losses and metrics read after forward; absent: all. Others may be dropped.
  std::optional<std::vector<uint32_t>> kept = {};
  // Divided values are gathered after each forward, for MicrobatchState::whole_value.
  bool gathers_values = false;
  // The ranks of a tensor group have pieces of the positions between blocks (Extent::kPiece).
  bool has_pieces = false;
  // The programs of these options; null: the runner compiles them.
  std::shared_ptr<PassPrograms> programs = nullptr;
};

class ProgramRunner {
 public:
  // `groups` makes the parameters whole that blocks need; null if this rank always has all of them.
  // `rows` provides the values that come from tables; null if there are none. `activations`
  // receives what units keep for backward; null: it stays. With `sequences`, batches are parts,
  // and blocks that cannot run on parts run whole. With `tensor`, the ranks of the group run the
  // divided blocks of the graph together; it is needed for pieces. `exchange` has the messages to
  // and from stages of other ranks; null if all stages are here. References are borrowed.
  // Errors  as BlockRunner
  ProgramRunner(ModelList models,
                ParameterStore& store,
                const ExecBase& base,
                RunnerOptions options = {},
                ShardedParameters* groups = nullptr,
                RowSource* rows = nullptr,
                std::unique_ptr<ActivationStore> activations = nullptr,
                SequenceGroup* sequences = nullptr,
                TensorGroup* tensor = nullptr,
                StageExchange* exchange = nullptr);
  ~ProgramRunner();
  ProgramRunner(const ProgramRunner&) = delete;
  ProgramRunner& operator=(const ProgramRunner&) = delete;

  const GraphFacts& facts() const { return programs_->facts(); }
  // Returns the state of no microbatch. The runner outlives it.
  MicrobatchState new_state() const { return {facts(), blocks_}; }

  using Losses = PassPrograms::Losses;
  // Returns the program of a stage in a pass.
  const Program& program(PassKind kind, Losses losses, uint32_t stage = 0) {
    return programs_->of(kind, losses, stage);
  }

  // Runs the forward of a stage of this rank: that of training, or that of an evaluation, as
  // `point` says. The first stage of this rank starts the microbatch; the others follow in order. A
  // batch without samples takes part in collectives, and calls no block. `batch` is read until the
  // forward ends.
  // Errors  those of blocks and tables; model.no_attention if recomputes were to take results of
  //         attention and no block has any
  void forward(MicrobatchState& state,
               const Batch& batch,
               const CallPoint& point,
               Losses losses = Losses::kWhole,
               uint32_t stage = 0);
  // Computes the losses, after the forward of the last stage of the model and before its backward:
  // once, or for each chunk of T. In chunks, also runs the backward of the
  // last block, or drops the outputs of the chunk in an evaluation.
  void run_losses(MicrobatchState& state, LossPort& losses);
  // Runs the backward of all blocks of a stage of this rank, and adds the gradients of parameters
  // to the store; stages run from the last to the first, which clears the state. Multiplies each
  // auxiliary loss by weight / count and by `aux_scale`. `ends_step` is true for the last backward
  // of the stage in a step. Without `losses`, the caller has added the gradients of values.
  void backward(MicrobatchState& state,
                LossPort* losses,
                const AuxScale& aux_scale = {},
                bool ends_step = true,
                uint32_t stage = 0);

  // Runs the blocks again on a microbatch that `forward` has processed, as a recompute: stores
  // nothing for a backward, and changes no buffer. Calls `seen` after each block, while `value` can
  // read the inputs and outputs of the block. If `seen` returns true, no further block runs. Clears
  // the state at the end. Of a pipeline, all ranks call it, each for its own stages; `seen` must
  // return false then.
  void replay(MicrobatchState& state,
              const Batch& batch,
              const CallPoint& point,
              const std::function<bool(uint32_t block)>& seen,
              RowSource::Lookup lookup = RowSource::Lookup::kReplay);

  // Drops everything that a pass has kept, also after an error.
  void clear(MicrobatchState& state) { state.clear(services_); }

  // ---- sums over a step (step_sums.hpp) ----

  StepSums& sums() { return blocks_.sums(); }
  // Runs a microbatch that `forward` will process, as a replay, to the last balance loss, and adds
  // its loads to the sums.
  void count_loads(MicrobatchState& state, const Batch& batch, const CallPoint& point);
  // Ends a training step, see BlockRunner.
  void end_step() { blocks_.end_step(groups_); }

 private:
  void start(MicrobatchState& state,
             const Program& program,
             const Batch& batch,
             const CallPoint& point,
             RowSource::Lookup lookup);
  void enter(const MicrobatchState& state);
  void run(MicrobatchState& state,
           Section section,
           LossPort* losses,
           const std::function<bool(uint32_t block)>* seen = nullptr);
  int64_t num_positions(const MicrobatchState& state) const;
  void check_kept_attention(const MicrobatchState& state) const;

  const ModelList models_;
  ParameterStore& store_;
  const ModelGraph& graph_;
  const RunnerOptions options_;
  ShardedParameters* const groups_;
  const std::unique_ptr<ActivationStore> activations_;
  const std::shared_ptr<PassPrograms> programs_;
  BlockRunner blocks_;
  const PassServices services_;
  const std::vector<uint32_t> stages_;  // of this rank, ascending
  uint64_t entered_ = 0;                // number of the microbatch that blocks_ is set to; 0: none
  uint64_t num_started_ = 0;
};

}  // namespace tenon
