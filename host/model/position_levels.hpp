// SPDX-License-Identifier: Apache-2.0
//
// How much of the axis T a value or a call of a block has on this rank. Ranks divide positions on
// two levels: those of a context group divide each sequence into parts, and with sequence
// parallelism those of a tensor group divide a part into pieces. Each level gathers and cuts alike.
//
//   extent   positions                 held by
//   kPiece   a piece of the part       one rank
//   kPart    the part                  each rank of a tensor group, the same bits
//   kWhole   whole sequences           each rank of a context group as well
//
// All ranks make the same calls in the same order.
// Threads: the train thread.
#pragma once

#include "host/model/graph.hpp"
#include "host/model/sequence_group.hpp"
#include "host/model/tensor_group.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// From narrow to wide. A level that no ranks divide has the extent of the next wider one.
enum class Extent : uint8_t { kPiece, kPart, kWhole };

// Which ranks divide positions.
struct DividedLevels {
  bool has_parts = false;   // a context group
  bool has_pieces = false;  // a tensor group
  bool has_tiles = false;   // each rank runs blocks in tiles of its positions
};

// Returns the extent on which each block runs. Blocks that are divided or tokenwise run on pieces
// if all their values have an axis T and they have no state buffer, except those of which
// `is_summed` is true: the ranks of a tensor group would set others. The values of divided blocks
// have T at axis 1, where the borders of a region expect it, and their outputs an axis behind it:
// numbers of tokens, as those of token_logps, leave a region for the whole part. A block in tiles
// does not run on pieces if it exchanges divided values, which have the positions of the part: the
// tiles of all pieces would be no range of it. Other blocks that can_run_on_part run on parts, and
// the rest on the whole.
std::vector<Extent> block_extents(const ModelGraph& graph,
                                  DividedLevels levels,
                                  const std::function<bool(uint32_t buffer)>& is_summed);

// The positions of one microbatch.
class PositionLevels {
 public:
  PositionLevels() = default;

  // Lets ranks hold parts of the sequences.
  void divide(DividedSequences sequences) { sequences_ = std::move(sequences); }
  // Lets the ranks of a tensor group, which is borrowed, hold pieces of a part of `positions`: as
  // evenly as possible, the longer pieces first. Pieces may be empty; one position is not divided.
  void divide(TensorGroup& group, int64_t positions);

  // Null if this rank has whole sequences.
  const DividedSequences* sequences() const {
    return sequences_.has_value() ? &*sequences_ : nullptr;
  }
  // Positions of the pieces of all tensor ranks; empty: they all have the part.
  const std::vector<int64_t>& pieces() const { return pieces_; }
  bool has_pieces() const { return !pieces_.empty(); }

  // Returns a tensor with another extent: gathers on each level that `to` is wider by, or returns
  // the range of this rank as a view. The adjoint of a cut is the gather, and the reverse: a
  // gathered gradient is the same on all ranks.
  // Shapes  tensor: the positions of `from` at `axis`
  at::Tensor convert(
      at::Tensor tensor, int64_t axis, Extent from, Extent to, const std::string& what) const;

 private:
  std::optional<DividedSequences> sequences_;
  TensorGroup* group_ = nullptr;  // of the pieces
  std::vector<int64_t> pieces_;
};

}  // namespace tenon
