// SPDX-License-Identifier: Apache-2.0
//
// Executes the instructions of one section on one microbatch. Part of ProgramRunner.
// Threads: the train thread.
#pragma once

#include "host/model/block_runner.hpp"
#include "host/model/block_tiles.hpp"
#include "host/model/microbatch_state.hpp"
#include "host/model/program_visitor.hpp"
#include "host/tensor/trace_span.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// Computes the losses of a microbatch when its program says so.
class LossPort {
 public:
  virtual ~LossPort() = default;
  // The values that losses read exist; those of `state.chunk()` if the program has chunks.
  virtual void compute(MicrobatchState& state) = 0;
  // Adds the gradients of those values to the state. Called after `compute`, in training.
  virtual void backward(MicrobatchState& state) = 0;
};

class ProgramPass : public ProgramVisitor {
 public:
  // References are borrowed. `losses` and `seen` may be null.
  ProgramPass(const PassServices& services,
              MicrobatchState& state,
              LossPort* losses,
              const std::function<bool(uint32_t block)>* seen = nullptr);

  void visit(const Instruction& instruction) override;
  bool is_asked(uint32_t block) override;
  bool goes_on() override { return goes_on_; }

 protected:
  // Calls a block on its inputs, and sets its outputs. Not for recomputes.
  virtual void forward(const Instruction& instruction);

  const at::Tensor& value(uint32_t v) const { return state_.values_[v]; }
  BlockTape& tape(uint32_t b) { return state_.tapes_[b]; }
  // Returns what a block reads of a value of which this rank holds `held`: all units, if the block
  // is not divided.
  at::Tensor all_units(uint32_t b, uint32_t v, const at::Tensor& held) const;
  // Sets the outputs of a block to those on its tape.
  void take_outputs(uint32_t b);

 private:
  void run_on_group(const Instruction& instruction);
  void run_losses(const Instruction& instruction);
  void read_rows(const Instruction& instruction);
  void hand_back_rows(const Instruction& instruction);
  void forward_again(const Instruction& instruction);
  void keep(const Instruction& instruction);
  void backward(const Instruction& instruction);
  void add_gradients(const Instruction& instruction);
  void put_pieces(const Instruction& instruction);
  void drop(const Instruction& instruction);
  void drop_from_tapes(uint32_t v);
  void move_away(const Instruction& instruction);
  void bring_back(const Instruction& instruction);

  // ---- stages of a pipeline ----
  void exchange(const Instruction& instruction);

  // ---- positions that are divided among ranks ----
  Extent extent_of(uint32_t b) const;
  Extent extent_in(uint32_t b, uint32_t v) const;
  std::vector<int64_t> pieces_of(uint32_t b) const;
  at::Tensor input_of(uint32_t b, uint32_t v) const;
  at::Tensor value_of(uint32_t b, uint32_t v, const at::Tensor& output) const;
  at::Tensor gradient_in(uint32_t b, uint32_t v) const;
  bool is_whole(uint32_t b) const;
  void cut_gradients(uint32_t b, std::vector<ValueGrad>& of_inputs) const;
  at::Tensor sum_of_pieces(uint32_t b, const at::Tensor& sum) const;
  void agree_on_gradients();

  // ---- blocks that are divided among ranks ----
  bool reads_all_units(uint32_t b, uint32_t v) const;

  void run_tiles(uint32_t b, const std::vector<at::Tensor>& inputs, bool is_recompute);
  Tiling tiling_of(uint32_t b) const;
  std::vector<at::Tensor> kept_inputs(uint32_t b) const;
  const at::Tensor& cut_into_chunks(uint32_t v);
  at::Tensor chunk_of(uint32_t v);
  uint32_t salt(uint32_t b) const;

  const PassServices& services_;
  MicrobatchState& state_;
  const ModelGraph& graph_;
  LossPort* const losses_;
  const std::function<bool(uint32_t block)>* const seen_;
  bool goes_on_ = true;
  bool repeats_ = false;           // between kRecompute and the backward that asked for it
  std::optional<TraceSpan> span_;  // of the backward of a block, with its recompute
};

}  // namespace tenon
