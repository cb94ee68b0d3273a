// SPDX-License-Identifier: Apache-2.0
//
// Calls tokenwise blocks on tiles of positions, one after the other, so that their intermediate
// tensors exist for one tile. Backward runs the forward of each tile again. Results equal those of
// whole blocks except for the order of sums.
// Threads: the train thread; tileable_blocks: any.
//
// Source: Snowflake, Arctic Long Sequence Training (2025), arXiv:2506.13996, section 3.1.
#pragma once

#include "host/model/block_runner.hpp"
#include "host/model/graph.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tenon {

// Returns by block whether it can run in tiles: it can run in chunks of T (joined_graph.hpp), its
// forward may be repeated, autograd makes its backward, and it has no state buffer.
std::vector<bool> tileable_blocks(const ModelGraph& graph);

// How a call runs in tiles.
struct Tiling {
  int64_t positions = 0;  // at most, of each tile
  uint32_t salt = 0;      // of the whole block; each tile has a separate stream of random numbers
  // As BlockRunner::Pass: ranks run equally many tiles, of their pieces. The last may be empty.
  std::vector<int64_t> pieces = {};
};

// One call of a block in tiles.
class TiledCall {
 public:
  // `inputs` are the whole inputs of block `b`, undefined if absent. References are borrowed.
  TiledCall(BlockRunner& blocks,
            const ModelGraph& graph,
            uint32_t b,
            const std::vector<at::Tensor>& inputs,
            Tiling tiling);

  // Returns the outputs as later blocks see them, by output. `is_recompute`: changes no buffer.
  // Errors  those of the block; plugin.bad_result for an auxiliary loss
  std::vector<at::Tensor> forward(bool is_recompute);
  // Runs forward and backward of each tile. Adds the gradients of parameters to the store. Returns
  // the gradients of the inputs in the order of BlockRunner::backward.
  // Shapes  grads: by output, whole; undefined: none
  // Errors  as forward
  std::vector<ValueGrad> backward(const std::vector<at::Tensor>& grads, const AuxScale& aux_scale);

 private:
  // Positions [begin, begin + length) of T.
  struct Tile {
    int64_t begin = 0;
    int64_t length = 0;
  };
  void run(size_t tile, bool records, bool is_recompute);
  at::Tensor part(uint32_t v, const at::Tensor& whole, Tile tile) const;
  void put(uint32_t v, const at::Tensor& part, Tile tile, at::Tensor& whole) const;
  uint32_t salt(size_t tile) const;
  std::vector<int64_t> pieces(size_t tile) const;

  BlockRunner& blocks_;
  const ModelGraph& graph_;
  const uint32_t b_;
  const std::vector<at::Tensor>& inputs_;
  const Tiling tiling_;
  int64_t num_positions_ = 0;  // of T
  std::vector<Tile> tiles_;
  BlockTape tape_;  // of the current tile
};

}  // namespace tenon
