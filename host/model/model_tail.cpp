// SPDX-License-Identifier: Apache-2.0
//
// The part of ModelRunner that runs the last blocks in chunks of T, with the losses.
#include "host/error/assert.hpp"
#include "host/model/joined_graph.hpp"
#include "host/model/leaf.hpp"
#include "host/model/model_runner.hpp"
#include "host/model/positions_axis.hpp"
#include "host/model/sharded_parameters.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <utility>

namespace tenon {

// The parameters of the tails stay until the pass ends, since each chunk needs them.
void ModelRunner::enter_tails() {
  for (const auto b : c10::irange(static_cast<uint32_t>(graph_.blocks.size()))) {
    if (facts_.is_tail(b) && sharded_ != nullptr) {
      sharded_->before_forward(b);
    }
  }
}

std::vector<uint32_t> tail_outputs(const ModelGraph& graph) {
  std::vector<uint32_t> outputs;
  for (const uint32_t b : tail_blocks(graph)) {
    const std::vector<uint32_t>& of_block = graph.blocks[b].outputs;
    outputs.insert(outputs.end(), of_block.begin(), of_block.end());
  }
  return outputs;
}

int64_t ModelRunner::tail_length() const {
  const std::vector<uint32_t>& inputs = graph_.blocks[tail()].inputs;
  const auto given =
      std::ranges::find_if(inputs, [this](uint32_t v) { return values_[v].defined(); });
  TENON_ASSERT(given != inputs.end(), "the tail has an input that is always given");
  return values_[*given].size(*axis_of_positions(graph_.values[*given]));
}

void ModelRunner::forward_tail(int64_t begin, int64_t length) {
  if (piece_.number == 0) {
    enter_tails();
  }
  piece_ = {.number = piece_.number + 1, .begin = begin, .length = length};
  for (const uint32_t b : facts_.tails()) {
    run_tail(b);
  }
}

void ModelRunner::drop_tail() {
  for (const uint32_t b : facts_.tails()) {
    tapes_[b].clear();
    for (const uint32_t v : graph_.blocks[b].outputs) {
      values_[v].reset();
    }
  }
}

void ModelRunner::run_tail(uint32_t b) {
  const ModelBlock& block = graph_.blocks[b];
  BlockTape& tape = tapes_[b];
  tape.clear();
  const bool keeps = place_.is_train && facts_.has_backward(b);
  const bool record = keeps && !block.has(TENON_BLOCK_HAND_WRITTEN);
  for (const uint32_t v : block.inputs) {
    const int64_t axis = *axis_of_positions(graph_.values[v]);
    tape.inputs.push_back(values_[v].defined()
                              ? as_leaf(values_[v].narrow(axis, piece_.begin, piece_.length),
                                        record && facts_.has_gradient(v))
                              : at::Tensor());
  }
  blocks_.forward(b, {.records = record, .salt = salt(b)}, tape);
  if (!tape.aux.empty() && block.model == 0) {
    models_.of(block).instance().identity().fail_result(
        "block '" + block.name +
        "' adds an auxiliary loss, and can therefore not be run by pieces (train.loss_chunk)");
  }
  for (size_t i = 0; i < block.outputs.size(); ++i) {
    values_[block.outputs[i]] = blocks_.at_border(block.outputs[i], tape.outputs[i]);
  }
  if (!keeps) {
    tape.clear();
  }
}

void ModelRunner::backward_tail() {
  const at::AutoGradMode no_grad(false);
  const ModelBlock& block = graph_.blocks[tail()];
  // Set aside the gradients that losses have already added to whole inputs.
  std::vector<at::Tensor> given;
  for (const uint32_t v : block.inputs) {
    given.push_back(std::exchange(grads_[v], at::Tensor()));
  }
  backward_block(tail(), {});  // no scale: forward_tail rejects auxiliary losses
  tapes_[tail()].clear();
  tail_grads_.resize(block.inputs.size());
  bool is_last = false;
  for (size_t i = 0; i < block.inputs.size(); ++i) {
    const uint32_t v = block.inputs[i];
    if (!values_[v].defined()) {
      continue;
    }
    const int64_t axis = *axis_of_positions(graph_.values[v]);
    const at::Tensor of_piece = std::exchange(grads_[v], std::move(given[i]));
    if (of_piece.defined()) {
      if (!tail_grads_[i].defined()) {
        tail_grads_[i] = at::zeros_like(values_[v]);
      }
      tail_grads_[i].narrow(axis, piece_.begin, piece_.length).copy_(of_piece);
    }
    is_last = piece_.begin + piece_.length == values_[v].size(axis);
  }
  if (is_last) {
    for (size_t i = block.inputs.size(); i-- > 0;) {
      if (tail_grads_[i].defined()) {
        add_grad(block.inputs[i], std::move(tail_grads_[i]));
      }
    }
    tail_grads_.clear();
    piece_ = {};
  }
  for (const uint32_t b : facts_.tails()) {
    for (const uint32_t v : graph_.blocks[b].outputs) {
      values_[v].reset();
    }
  }
}

}  // namespace tenon
