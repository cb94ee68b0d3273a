// SPDX-License-Identifier: Apache-2.0
//
// Source: docs/decisions/0001-block-contract.md describes one autograd graph per block.
#include "host/model/program_pass.hpp"

#include "host/error/assert.hpp"
#include "host/model/activation_store.hpp"
#include "host/model/block_tiles.hpp"
#include "host/model/leaf.hpp"
#include "host/model/positions_axis.hpp"
#include "host/model/row_source.hpp"
#include "host/model/sharded_parameters.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <utility>

namespace tenon {

ProgramPass::ProgramPass(const PassServices& services,
                         MicrobatchState& state,
                         LossPort* losses,
                         const std::function<bool(uint32_t block)>* seen)
    : services_(services),
      state_(state),
      graph_(state.facts_->graph()),
      losses_(losses),
      seen_(seen) {}

bool ProgramPass::is_asked(uint32_t block) {
  return state_.tapes_[block].has_aux ||
         std::ranges::any_of(graph_.blocks[block].outputs, [this](uint32_t v) {
           return state_.grads_[v].defined() && state_.needs_grad(v);
         });
}

void ProgramPass::visit(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::kGather:
    case Op::kAwait:
    case Op::kFree:
    case Op::kReduce:
    case Op::kUpdate:
      return run_on_group(instruction);
    case Op::kLookup:
      state_.rows_ = services_.rows->begin(state_.batch_, state_.point_, state_.lookup_);
      return;
    case Op::kRows:
      return read_rows(instruction);
    case Op::kRowGradients:
      return hand_back_rows(instruction);
    case Op::kForward:
      return repeats_ ? forward_again(instruction) : forward(instruction);
    case Op::kKeep:
      return keep(instruction);
    case Op::kRecompute:
      repeats_ = true;
      span_.emplace("backward of block", graph_.blocks[instruction.block].name);
      return;
    case Op::kBackward:
      return backward(instruction);
    case Op::kAddGradients:
      return add_gradients(instruction);
    case Op::kPutPieces:
      return put_pieces(instruction);
    case Op::kSeen:
      goes_on_ = seen_ == nullptr || !(*seen_)(instruction.block);
      return;
    case Op::kDrop:
      return drop(instruction);
    case Op::kMoveAway:
      return move_away(instruction);
    case Op::kBringBack:
      return bring_back(instruction);
    case Op::kLoss:
    case Op::kLossBackward:
      return run_losses(instruction);
    case Op::kReceive:
    case Op::kSend:
    case Op::kReceiveGradients:
    case Op::kSendGradients:
      return exchange(instruction);
  }
}

void ProgramPass::run_losses(const Instruction& instruction) {
  if (losses_ == nullptr) {
    return;  // the caller adds the gradients of values
  }
  if (instruction.op == Op::kLoss) {
    losses_->compute(state_);
    return;
  }
  losses_->backward(state_);
  if (!instruction.has(kInChunk) && state_.chunk_.number == 0) {
    agree_on_gradients();
  }
}

void ProgramPass::run_on_group(const Instruction& instruction) {
  ShardedParameters* const groups = services_.groups;
  if (groups == nullptr) {
    return;
  }
  const uint32_t g = instruction.group;
  switch (instruction.op) {
    case Op::kGather:
      groups->acquire(g);
      state_.whole_groups_.push_back(g);
      break;
    case Op::kAwait:
      groups->await(g);
      if (instruction.has(kSettlesGradients)) {
        groups->settle_gradients(g);
      }
      break;
    case Op::kFree:
      groups->free(g);
      std::erase(state_.whole_groups_, g);
      break;
    case Op::kReduce:
      groups->reduce(g, state_.is_last_microbatch_);
      break;
    default:
      groups->use_gradients(g);
      break;
  }
}

// ---- rows of tables ----

// On a rank without samples, the values stay undefined.
void ProgramPass::read_rows(const Instruction& instruction) {
  for (const uint32_t v : state_.program_->values(instruction)) {
    const uint32_t ids = graph_.values[v].lookup->ids;
    const at::Tensor rows =
        state_.rows_->rows(v, ids != kNoIndex ? state_.values_[ids] : at::Tensor());
    if (rows.defined()) {
      state_.values_[v] =
          rows.to(services_.store.device(),
                  services_.blocks.border_dtype(v).value_or(services_.compute_dtype));
    }
  }
}

void ProgramPass::hand_back_rows(const Instruction& instruction) {
  for (const uint32_t v : state_.program_->values(instruction)) {
    state_.rows_->take_grad(v, std::exchange(state_.grads_[v], at::Tensor()));
    state_.values_[v].reset();
  }
}

// ---- forward ----

// Each chunk of a block draws from a separate stream of random numbers. Other models, and blocks
// that are skipped, do not change them.
uint32_t ProgramPass::salt(uint32_t b) const {
  const ModelBlock& block = graph_.blocks[b];
  return block.number + state_.chunk_.number * block.num_siblings;
}

// A piece is gathered before the first chunk: chunks are of the part.
const at::Tensor& ProgramPass::cut_into_chunks(uint32_t v) {
  if (state_.extent(v) != Extent::kPiece) {
    return state_.values_[v];
  }
  state_.chunk_inputs_.parts.resize(graph_.values.size());
  at::Tensor& part = state_.chunk_inputs_.parts[v];
  if (!part.defined()) {
    part = state_.value_of_part(v);
  }
  return part;
}

at::Tensor ProgramPass::chunk_of(uint32_t v) {
  const at::Tensor& whole = cut_into_chunks(v);
  return whole.defined()
             ? whole.narrow(
                   *axis_of_positions(graph_.values[v]), state_.chunk_.begin, state_.chunk_.length)
             : whole;
}

void ProgramPass::forward(const Instruction& instruction) {
  const uint32_t b = instruction.block;
  const ModelBlock& block = graph_.blocks[b];
  BlockTape& tape = state_.tapes_[b];
  tape.clear();
  const bool records = instruction.has(kRecords);
  const bool is_chunk = instruction.has(kInChunk);
  for (const uint32_t v : block.inputs) {
    TENON_ASSERT(state_.values_[v].defined() || graph_.values[v].is_optional,
                 "each value that a block reads exists");
    tape.inputs.push_back(as_leaf(is_chunk ? all_units(b, v, chunk_of(v)) : input_of(b, v),
                                  records && state_.needs_grad(v)));
  }
  const bool is_again = instruction.has(kIsAgain);
  if (instruction.has(kInTiles)) {
    run_tiles(b, tape.inputs, is_again);
    return;
  }
  services_.blocks.forward(b,
                           {.records = records,
                            .is_recompute = is_again,
                            .salt = salt(b),
                            .pieces = pieces_of(b),
                            .keeps_attention = instruction.has(kKeepsAttention)},
                           tape);
  if (is_chunk) {
    services_.blocks.refuse_aux_losses(b, tape, "pieces (train.loss_chunk)");
  }
  take_outputs(b);
  if (is_again || is_chunk) {
    return;
  }
  tape.has_aux = !tape.aux.empty();
  for (const AuxLoss& aux : tape.aux) {
    if (aux.is_counted) {
      state_.aux_losses_.push_back(aux);
      state_.aux_losses_.back().sum = sum_of_pieces(b, aux.sum);
    }
  }
}

// Returns a sum over tokens, detached, with those of the other pieces that the block ran on.
at::Tensor ProgramPass::sum_of_pieces(uint32_t b, const at::Tensor& sum) const {
  if (pieces_of(b).empty()) {
    return sum.detach();
  }
  at::Tensor total = sum.detach().clone(at::MemoryFormat::Contiguous);
  services_.tensor->sum(total, "auxiliary losses of " + graph_.blocks[b].name);
  return total;
}

void ProgramPass::run_tiles(uint32_t b, const std::vector<at::Tensor>& inputs, bool is_recompute) {
  const std::vector<uint32_t>& outputs = graph_.blocks[b].outputs;
  TiledCall call(services_.blocks, graph_, b, inputs, tiling_of(b));
  std::vector<at::Tensor> made = call.forward(is_recompute);
  for (size_t i = 0; i < made.size(); ++i) {
    state_.values_[outputs[i]] = value_of(b, outputs[i], made[i]);
  }
}

Tiling ProgramPass::tiling_of(uint32_t b) const {
  return {.positions = services_.tile, .salt = salt(b), .pieces = pieces_of(b)};
}

void ProgramPass::take_outputs(uint32_t b) {
  const std::vector<uint32_t>& outputs = graph_.blocks[b].outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    state_.values_[outputs[i]] = value_of(
        b, outputs[i], services_.blocks.at_border(outputs[i], state_.tapes_[b].outputs[i]));
  }
}

void ProgramPass::keep(const Instruction& instruction) {
  if (instruction.has(kInputsOnly)) {
    BlockTape& tape = state_.tapes_[instruction.block];
    tape.outputs.clear();
    tape.aux.clear();
  }
}

void ProgramPass::drop(const Instruction& instruction) {
  for (const uint32_t v : state_.program_->values(instruction)) {
    state_.values_[v].reset();
    if (instruction.has(kFromTapes)) {
      drop_from_tapes(v);
    }
  }
  if (instruction.has(kTape)) {
    state_.tapes_[instruction.block].clear();
  }
}

void ProgramPass::drop_from_tapes(uint32_t v) {
  for (const uint32_t user : graph_.values[v].users) {
    std::vector<at::Tensor>& inputs = state_.tapes_[user].inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (graph_.blocks[user].inputs[i] == v) {
        inputs[i].reset();
      }
    }
  }
}

// ---- positions that are divided among ranks ----

// Returns the positions on which the block runs now.
Extent ProgramPass::extent_of(uint32_t b) const {
  return services_.extents.empty() || state_.chunk_.number > 0 ? Extent::kPart
                                                               : services_.extents[b];
}

// Returns the positions that an input or an output has inside of a block. Divided blocks exchange
// units of the part.
Extent ProgramPass::extent_in(uint32_t b, uint32_t v) const {
  const bool is_in_region = graph_.values[v].is_divided && graph_.blocks[b].is_divided;
  return is_in_region ? std::max(extent_of(b), Extent::kPart) : extent_of(b);
}

std::vector<int64_t> ProgramPass::pieces_of(uint32_t b) const {
  return extent_of(b) == Extent::kPiece ? state_.positions().pieces() : std::vector<int64_t>();
}

// Returns what a block reads of a value.
at::Tensor ProgramPass::input_of(uint32_t b, uint32_t v) const {
  const at::Tensor value = all_units(b, v, state_.values_[v]);
  const Extent held = state_.extent(v);
  const Extent inside = extent_in(b, v);
  const auto axis = axis_of_positions(graph_.values[v]);
  if (!value.defined() || !axis.has_value() || held == inside) {
    return value;
  }
  return state_.positions()
      .convert(value, *axis, held, inside, "inputs of " + graph_.blocks[b].name)
      .contiguous();
}

// Returns what this rank keeps of the output of a block.
at::Tensor ProgramPass::value_of(uint32_t b, uint32_t v, const at::Tensor& output) const {
  const Extent made = extent_in(b, v);
  const Extent held = state_.extent(v);
  const auto axis = axis_of_positions(graph_.values[v]);
  if (made == held || !axis.has_value()) {
    return output;
  }
  return state_.positions()
      .convert(output, *axis, made, held, "outputs of " + graph_.blocks[b].name)
      .contiguous();
}

// Returns the gradient of an output inside of the block, from the ranges or the shares of all
// ranks.
at::Tensor ProgramPass::gradient_in(uint32_t b, uint32_t v) const {
  const at::Tensor& grad = state_.grads_[v];
  if (!grad.defined()) {
    return grad;
  }
  const std::string what = "gradients of " + graph_.values[v].name;
  if (const auto axis = axis_of_positions(graph_.values[v])) {
    return state_.positions().convert(grad, *axis, state_.extent(v), extent_in(b, v), what);
  }
  return is_whole(b) ? state_.divided()->group->sum(grad, what) : grad;
}

bool ProgramPass::is_whole(uint32_t b) const {
  return state_.divided() != nullptr && extent_of(b) == Extent::kWhole;
}

// Keeps what this rank adds to the gradients of the inputs of a block. Those of values without
// positions come from the first rank if the block ran whole. Gradients of chunks are cut at the
// end.
void ProgramPass::cut_gradients(uint32_t b, std::vector<ValueGrad>& of_inputs) const {
  for (ValueGrad& input : of_inputs) {
    const uint32_t v = input.value;
    if (!input.grad.defined()) {
      continue;
    }
    const auto axis = axis_of_positions(graph_.values[v]);
    const Extent inside = extent_in(b, v);
    const Extent held = state_.extent(v);
    if (axis.has_value() && inside != held && state_.chunk_.number == 0) {
      const std::string what = "gradients of inputs of " + graph_.blocks[b].name;
      input.grad = state_.positions().convert(input.grad, *axis, inside, held, what).contiguous();
    } else if (!axis.has_value() && is_whole(b) && !state_.divided()->group->is_first()) {
      input.grad = at::zeros_like(input.grad);
    }
    if (reads_all_units(b, v)) {
      input.grad = services_.tensor->part_of_gradient(input.grad, *graph_.values[v].split);
    }
  }
}

// A loss may give no gradient on a rank whose part has no items. The ranks run the same backward.
void ProgramPass::agree_on_gradients() {
  const DividedSequences* const divided = state_.divided();
  if (divided == nullptr) {
    return;
  }
  std::vector<int64_t> has_grad;
  for (const at::Tensor& grad : state_.grads_) {
    has_grad.push_back(grad.defined() ? 1 : 0);
  }
  divided->group->ranks().all_reduce(has_grad, Reduce::kMax, "gradients of losses");
  for (size_t v = 0; v < has_grad.size(); ++v) {
    if (has_grad[v] != 0 && !state_.grads_[v].defined()) {
      state_.grads_[v] = at::zeros_like(state_.values_[v]);
    }
  }
}

// ---- blocks that are divided among ranks ----

bool ProgramPass::reads_all_units(uint32_t b, uint32_t v) const {
  return services_.tensor != nullptr && graph_.values[v].is_divided && !graph_.blocks[b].is_divided;
}

at::Tensor ProgramPass::all_units(uint32_t b, uint32_t v, const at::Tensor& held) const {
  return held.defined() && reads_all_units(b, v)
             ? services_.tensor->whole(
                   held, *graph_.values[v].split, "inputs of " + graph_.blocks[b].name)
             : held;
}

// ---- activations that leave memory ----

void ProgramPass::move_away(const Instruction& instruction) {
  const uint32_t last = instruction.block;
  MicrobatchState::Moved moved{.last = last, .values = {}};
  std::vector<at::Tensor> group;
  for (const uint32_t v : state_.program_->values(instruction)) {
    if (state_.values_[v].defined()) {
      moved.values.push_back(v);
      group.push_back(std::exchange(state_.values_[v], at::Tensor()));
      drop_from_tapes(v);
    }
  }
  for (uint32_t b = state_.facts_->unit_of(last).first; b <= last; ++b) {
    for (AttentionResult& result : state_.tapes_[b].attention.results()) {
      result.is_away = result.is_unchanged();
      if (result.is_away) {
        group.push_back(std::move(result.y));
        group.push_back(std::move(result.sums));
      }
    }
  }
  if (!group.empty()) {
    services_.activations->push(state_.number_, std::move(group));
    state_.moved_.push_back(std::move(moved));
  }
}

void ProgramPass::bring_back(const Instruction& instruction) {
  const uint32_t last = instruction.block;
  if (state_.moved_.empty() || state_.moved_.back().last != last) {
    return;  // the unit had nothing to move
  }
  const MicrobatchState::Moved moved = std::move(state_.moved_.back());
  state_.moved_.pop_back();
  std::vector<at::Tensor> group = services_.activations->pop(state_.number_);
  size_t next = 0;
  for (const uint32_t v : moved.values) {
    state_.values_[v] = std::move(group[next++]);
  }
  for (uint32_t b = state_.facts_->unit_of(last).first; b <= last; ++b) {
    for (AttentionResult& result : state_.tapes_[b].attention.results()) {
      if (std::exchange(result.is_away, false)) {
        result.y = std::move(group[next++]);
        result.sums = std::move(group[next++]);
        result.renew();
      }
    }
  }
}

// ---- backward ----

// An input that the tape has dropped is a value that a recompute has made again.
std::vector<at::Tensor> ProgramPass::kept_inputs(uint32_t b) const {
  const ModelBlock& block = graph_.blocks[b];
  std::vector<at::Tensor> inputs = state_.tapes_[b].inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) {
      inputs[i] = input_of(b, block.inputs[i]);
    }
  }
  return inputs;
}

void ProgramPass::forward_again(const Instruction& instruction) {
  const uint32_t b = instruction.block;
  const ModelBlock& block = graph_.blocks[b];
  BlockTape& tape = state_.tapes_[b];
  std::vector<at::Tensor> inputs = kept_inputs(b);
  if (instruction.has(kInTiles)) {
    run_tiles(b, inputs, /*is_recompute=*/true);
    return;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    tape.inputs[i] = as_leaf(inputs[i], state_.needs_grad(block.inputs[i]));
  }
  inputs.clear();
  services_.blocks.forward(b,
                           {.records = true,
                            .is_recompute = true,
                            .salt = salt(b),
                            .pieces = pieces_of(b),
                            .keeps_attention = instruction.has(kKeepsAttention)},
                           tape);
  for (size_t i = 0; i < block.outputs.size(); ++i) {
    at::Tensor& value = state_.values_[block.outputs[i]];
    if (!value.defined()) {
      value = value_of(
          b, block.outputs[i], services_.blocks.at_border(block.outputs[i], tape.outputs[i]));
    }
  }
}

void ProgramPass::backward(const Instruction& instruction) {
  const uint32_t b = instruction.block;
  const ModelBlock& block = graph_.blocks[b];
  repeats_ = false;
  if (!span_.has_value()) {
    span_.emplace("backward of block", block.name);
  }
  std::vector<at::Tensor> grads;
  grads.reserve(block.outputs.size());
  for (const uint32_t v : block.outputs) {
    grads.push_back(gradient_in(b, v));
  }
  state_.returned_.block = b;
  if (instruction.has(kInTiles)) {
    const std::vector<at::Tensor> inputs = kept_inputs(b);
    TiledCall call(services_.blocks, graph_, b, inputs, tiling_of(b));
    state_.returned_.of_inputs = call.backward(grads, state_.aux_scale_);
    cut_gradients(b, state_.returned_.of_inputs);
    return;
  }
  // Blocks that run in chunks have no auxiliary losses.
  const AuxScale scale = instruction.has(kInChunk) ? AuxScale() : state_.aux_scale_;
  state_.returned_.of_inputs =
      services_.blocks.backward(b, salt(b), state_.tapes_[b], grads, scale);
  cut_gradients(b, state_.returned_.of_inputs);
  if (instruction.has(kInChunk)) {
    for (const uint32_t v : block.outputs) {
      state_.grads_[v].reset();
    }
    span_.reset();
  }
}

void ProgramPass::add_gradients(const Instruction& instruction) {
  const uint32_t b = instruction.block;
  if (instruction.when == When::kInLastChunk) {
    const std::vector<uint32_t>& inputs = graph_.blocks[b].inputs;
    for (size_t i = inputs.size(); i-- > 0;) {
      if (state_.chunk_inputs_.grads[i].defined()) {
        state_.add_grad_of_part(inputs[i], std::move(state_.chunk_inputs_.grads[i]));
      }
    }
    state_.chunk_inputs_ = {};
    agree_on_gradients();
    return;
  }
  TENON_ASSERT(state_.returned_.block == b,
               "gradients are added behind the backward of their block");
  for (ValueGrad& input : state_.returned_.of_inputs) {
    state_.add_grad(input.value, std::move(input.grad));
  }
  state_.returned_ = {};
  for (const uint32_t v : graph_.blocks[b].outputs) {
    state_.grads_[v].reset();
  }
  span_.reset();
}

// Sums the gradients of a chunk as add_grad does, and copies them to their place.
void ProgramPass::put_pieces(const Instruction& instruction) {
  const std::vector<uint32_t>& inputs = graph_.blocks[instruction.block].inputs;
  state_.chunk_inputs_.grads.resize(inputs.size());
  std::vector<ValueGrad> pieces;
  for (ValueGrad& input : std::exchange(state_.returned_, {}).of_inputs) {
    at::Tensor grad = input.grad.to(state_.values_[input.value].scalar_type());
    const auto earlier = std::ranges::find(pieces, input.value, &ValueGrad::value);
    if (earlier != pieces.end()) {
      earlier->grad = earlier->grad + grad;
    } else {
      pieces.push_back({input.value, std::move(grad)});
    }
  }
  for (const ValueGrad& piece : pieces) {
    const at::Tensor& value = cut_into_chunks(piece.value);
    const auto i = static_cast<size_t>(std::ranges::find(inputs, piece.value) - inputs.begin());
    at::Tensor& whole = state_.chunk_inputs_.grads[i];
    if (!whole.defined()) {
      whole = at::zeros_like(value);
    }
    whole
        .narrow(*axis_of_positions(graph_.values[piece.value]),
                state_.chunk_.begin,
                state_.chunk_.length)
        .copy_(piece.grad);
  }
}

}  // namespace tenon
