// SPDX-License-Identifier: Apache-2.0
#include "host/model/block_tiles.hpp"

#include <tenon/model.h>

#include "host/error/assert.hpp"
#include "host/model/joined_graph.hpp"
#include "host/model/leaf.hpp"
#include "host/model/positions_axis.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

bool has_state(const ModelGraph& graph, const ModelBlock& block) {
  return std::ranges::any_of(
      block.buffers, [&graph](uint32_t i) { return graph.buffers[i].kind == TENON_BUFFER_STATE; });
}

// A block that reads a value twice gives two gradients of it: adds the later to the first.
void merge_repeated(std::vector<ValueGrad>& grads) {
  for (size_t i = 0; i < grads.size(); ++i) {
    const auto end = grads.begin() + static_cast<int64_t>(i);
    const auto earlier = std::ranges::find(grads.begin(), end, grads[i].value, &ValueGrad::value);
    if (earlier != end) {
      earlier->grad = earlier->grad + grads[i].grad;
      grads[i].grad.reset();
    }
  }
}

}  // namespace

std::vector<bool> tileable_blocks(const ModelGraph& graph) {
  std::vector<bool> can;
  for (const ModelBlock& block : graph.blocks) {
    can.push_back(can_run_in_chunks(graph, block) && !has_state(graph, block) &&
                  !block.has(TENON_BLOCK_NO_RECOMPUTE | TENON_BLOCK_HAND_WRITTEN));
  }
  return can;
}

TiledCall::TiledCall(BlockRunner& blocks,
                     const ModelGraph& graph,
                     uint32_t b,
                     const std::vector<at::Tensor>& inputs,
                     Tiling tiling)
    : blocks_(blocks),
      graph_(graph),
      b_(b),
      inputs_(inputs),
      tiling_(std::move(tiling)),
      tape_(blocks.make_tape(b)) {
  const auto given =
      std::ranges::find_if(inputs, [](const at::Tensor& input) { return input.defined(); });
  TENON_ASSERT(given != inputs.end(), "a tokenwise block has an input that is always given");
  const uint32_t v = graph.blocks[b].inputs[static_cast<size_t>(given - inputs.begin())];
  num_positions_ = given->size(*axis_of_positions(graph.values[v]));
  const std::vector<int64_t>& pieces = tiling_.pieces;
  const int64_t longest = pieces.empty() ? num_positions_ : std::ranges::max(pieces);
  for (int64_t begin = 0; begin == 0 || begin < longest; begin += tiling_.positions) {
    const int64_t first = std::min(begin, num_positions_);
    tiles_.push_back({first, std::min(tiling_.positions, num_positions_ - first)});
  }
}

uint32_t TiledCall::salt(size_t tile) const {
  return tiling_.salt + static_cast<uint32_t>(tile) * graph_.blocks[b_].num_siblings;
}

// The positions of a tile that each rank has.
std::vector<int64_t> TiledCall::pieces(size_t tile) const {
  std::vector<int64_t> pieces = tiling_.pieces;
  for (int64_t& length : pieces) {
    const int64_t left = length - static_cast<int64_t>(tile) * tiling_.positions;
    length = std::clamp(left, int64_t{0}, tiling_.positions);
  }
  return pieces;
}

at::Tensor TiledCall::part(uint32_t v, const at::Tensor& whole, Tile tile) const {
  return whole.defined()
             ? whole.narrow(*axis_of_positions(graph_.values[v]), tile.begin, tile.length)
             : whole;
}

// Copies a part to its place. The first part allocates the whole.
void TiledCall::put(uint32_t v, const at::Tensor& part, Tile tile, at::Tensor& whole) const {
  if (tile.length == num_positions_) {
    whole = part;
    return;
  }
  const int64_t axis = *axis_of_positions(graph_.values[v]);
  if (!whole.defined()) {
    std::vector<int64_t> shape = part.sizes().vec();
    shape[static_cast<size_t>(axis)] = num_positions_;
    whole = at::zeros(shape, part.options());
  }
  whole.narrow(axis, tile.begin, tile.length).copy_(part);
}

void TiledCall::run(size_t tile, bool records, bool is_recompute) {
  const ModelBlock& block = graph_.blocks[b_];
  tape_.clear();
  for (size_t i = 0; i < block.inputs.size(); ++i) {
    const uint32_t v = block.inputs[i];
    tape_.inputs.push_back(
        as_leaf(part(v, inputs_[i], tiles_[tile]), records && blocks_.needs_grad(v)));
  }
  blocks_.forward(b_,
                  {.records = records,
                   .is_recompute = is_recompute,
                   .salt = salt(tile),
                   .pieces = pieces(tile)},
                  tape_);
  blocks_.refuse_aux_losses(b_, tape_, "tiles (train.tile)");
}

std::vector<at::Tensor> TiledCall::forward(bool is_recompute) {
  const ModelBlock& block = graph_.blocks[b_];
  std::vector<at::Tensor> outputs(block.outputs.size());
  for (size_t t = 0; t < tiles_.size(); ++t) {
    run(t, /*records=*/false, is_recompute);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const uint32_t v = block.outputs[i];
      put(v, blocks_.at_border(v, tape_.outputs[i]), tiles_[t], outputs[i]);
    }
  }
  return outputs;
}

std::vector<ValueGrad> TiledCall::backward(const std::vector<at::Tensor>& grads,
                                           const AuxScale& aux_scale) {
  const ModelBlock& block = graph_.blocks[b_];
  std::vector<ValueGrad> sums;  // in the order in which the block gives them
  for (size_t t = 0; t < tiles_.size(); ++t) {
    run(t, /*records=*/true, /*is_recompute=*/true);
    std::vector<at::Tensor> of_tile;
    for (size_t i = 0; i < grads.size(); ++i) {
      of_tile.push_back(part(block.outputs[i], grads[i], tiles_[t]));
    }
    std::vector<ValueGrad> inputs = blocks_.backward(b_, salt(t), tape_, of_tile, aux_scale);
    merge_repeated(inputs);
    for (ValueGrad& input : inputs) {
      if (!input.grad.defined()) {
        continue;
      }
      auto sum = std::ranges::find(sums, input.value, &ValueGrad::value);
      if (sum == sums.end()) {
        sum = sums.insert(sums.end(), ValueGrad{input.value, at::Tensor()});
      }
      put(input.value, input.grad, tiles_[t], sum->grad);
    }
  }
  return sums;
}

}  // namespace tenon
