// SPDX-License-Identifier: Apache-2.0
//
// The part of ModelRunner that runs tokenwise blocks on tiles of positions. Backward runs the
// forward of a tile again, so intermediate tensors exist for one tile.
//
// Source: Snowflake, Arctic Long Sequence Training (2025), arXiv:2506.13996, section 3.1.
#include "host/model/block_tiles.hpp"

#include <tenon/model.h>

#include "host/error/assert.hpp"
#include "host/model/joined_graph.hpp"
#include "host/model/leaf.hpp"
#include "host/model/model_runner.hpp"
#include "host/model/positions_axis.hpp"
#include "host/plugin/model_proxy.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

bool has_state(const ModelGraph& graph, const ModelBlock& block) {
  return std::ranges::any_of(
      block.buffers, [&graph](uint32_t i) { return graph.buffers[i].kind == TENON_BUFFER_STATE; });
}

at::Tensor tile_of(const ModelGraph& graph, uint32_t v, const at::Tensor& whole, TileRange tile) {
  return whole.defined()
             ? whole.narrow(*axis_of_positions(graph.values[v]), tile.begin, tile.length)
             : whole;
}

// Copies a tile to its place. The first tile allocates the whole.
void put_tile(const ModelGraph& graph,
              uint32_t v,
              const at::Tensor& tile,
              TileRange at,
              int64_t positions,
              at::Tensor& whole) {
  if (at.length == positions) {
    whole = tile;
    return;
  }
  const int64_t axis = *axis_of_positions(graph.values[v]);
  if (!whole.defined()) {
    std::vector<int64_t> shape = tile.sizes().vec();
    shape[static_cast<size_t>(axis)] = positions;
    whole = at::zeros(shape, tile.options());
  }
  whole.narrow(axis, at.begin, at.length).copy_(tile);
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

void ModelRunner::tile_blocks(int64_t positions) {
  tile_ = positions;
  tiled_blocks_ = tileable_blocks(graph_);
}

at::Tensor ModelRunner::kept_input(uint32_t b, size_t i) const {
  const at::Tensor& of_tape = tapes_[b].inputs[i];
  return of_tape.defined() ? of_tape : values_[graph_.blocks[b].inputs[i]];
}

std::vector<TileRange> ModelRunner::tiles_of(uint32_t b) const {
  const ModelBlock& block = graph_.blocks[b];
  std::vector<TileRange> tiles;
  for (size_t i = 0; i < block.inputs.size() && tiles.empty(); ++i) {
    const at::Tensor input = kept_input(b, i);
    if (!input.defined()) {
      continue;
    }
    const int64_t positions = input.size(*axis_of_positions(graph_.values[block.inputs[i]]));
    for (int64_t begin = 0; begin == 0 || begin < positions; begin += tile_) {
      tiles.push_back({begin, std::min(tile_, positions - begin), positions});
    }
  }
  TENON_ASSERT(!tiles.empty(), "a tokenwise block has an input that is always given");
  return tiles;
}

// Each tile draws from a separate stream of random numbers, as a chunk does.
uint32_t ModelRunner::tile_salt(uint32_t b, size_t tile) const {
  return salt(b) + static_cast<uint32_t>(tile) * graph_.blocks[b].num_siblings;
}

void ModelRunner::run_tile(
    uint32_t b, TileRange tile, bool records, uint32_t salt, bool again, BlockTape& piece) {
  const ModelBlock& block = graph_.blocks[b];
  piece.clear();
  for (size_t i = 0; i < block.inputs.size(); ++i) {
    const uint32_t v = block.inputs[i];
    piece.inputs.push_back(
        as_leaf(tile_of(graph_, v, kept_input(b, i), tile), records && facts_.has_gradient(v)));
  }
  blocks_.forward(b, {.records = records, .is_recompute = again, .salt = salt}, piece);
  if (!piece.aux.empty() && block.model == 0) {
    models_.of(block).instance().identity().fail_result(
        "block '" + block.name +
        "' adds an auxiliary loss, and can therefore not be run by tiles (train.tile)");
  }
}

void ModelRunner::forward_tiles(uint32_t b, bool again) {
  const ModelBlock& block = graph_.blocks[b];
  BlockTape piece = blocks_.make_tape(b);
  std::vector<at::Tensor> outputs(block.outputs.size());
  const std::vector<TileRange> tiles = tiles_of(b);
  for (size_t t = 0; t < tiles.size(); ++t) {
    run_tile(b, tiles[t], false, tile_salt(b, t), again, piece);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const uint32_t v = block.outputs[i];
      put_tile(graph_,
               v,
               blocks_.at_border(v, piece.outputs[i]),
               tiles[t],
               tiles[t].positions,
               outputs[i]);
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    values_[block.outputs[i]] = std::move(outputs[i]);
  }
}

void ModelRunner::backward_tiles(uint32_t b,
                                 const std::vector<at::Tensor>& grads,
                                 const AuxScale& aux_scale) {
  const ModelBlock& block = graph_.blocks[b];
  BlockTape piece = blocks_.make_tape(b);
  std::vector<ValueGrad> sums;  // in the order in which the block gives them
  const std::vector<TileRange> tiles = tiles_of(b);
  for (size_t t = 0; t < tiles.size(); ++t) {
    const uint32_t salt = tile_salt(b, t);
    run_tile(b, tiles[t], true, salt, true, piece);
    std::vector<at::Tensor> of_tile;
    for (size_t i = 0; i < grads.size(); ++i) {
      of_tile.push_back(tile_of(graph_, block.outputs[i], grads[i], tiles[t]));
    }
    std::vector<ValueGrad> inputs = blocks_.backward(b, salt, piece, of_tile, aux_scale);
    for (size_t i = 0; i < inputs.size(); ++i) {
      // A block that reads a value twice gives two gradients of it.
      const auto earlier = std::ranges::find(inputs.begin(),
                                             inputs.begin() + static_cast<int64_t>(i),
                                             inputs[i].value,
                                             &ValueGrad::value);
      if (earlier != inputs.begin() + static_cast<int64_t>(i)) {
        earlier->grad = earlier->grad + inputs[i].grad;
        inputs[i].grad.reset();
      }
    }
    for (ValueGrad& input : inputs) {
      auto sum = std::ranges::find(sums, input.value, &ValueGrad::value);
      if (input.grad.defined()) {
        sum =
            sum != sums.end() ? sum : sums.insert(sums.end(), ValueGrad{input.value, at::Tensor()});
        put_tile(graph_, input.value, input.grad, tiles[t], tiles[t].positions, sum->grad);
      }
    }
  }
  for (ValueGrad& input : sums) {
    add_grad(input.value, std::move(input.grad));
  }
}

}  // namespace tenon
