// SPDX-License-Identifier: Apache-2.0
#include "host/model/position_levels.hpp"

#include <tenon/model.h>

#include "host/model/block_tiles.hpp"
#include "host/model/joined_graph.hpp"
#include "host/model/position_ranges.hpp"
#include "host/model/positions_axis.hpp"
#include "host/tensor/batch_positions.hpp"

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

// Returns whether the block exchanges values of which each rank has units.
bool has_divided_values(const ModelGraph& graph, const ModelBlock& block) {
  const auto is_divided = [&graph](uint32_t v) { return graph.values[v].is_divided; };
  return std::ranges::any_of(block.inputs, is_divided) ||
         std::ranges::any_of(block.outputs, is_divided);
}

bool can_run_on_piece(const ModelGraph& graph,
                      const ModelBlock& block,
                      DividedLevels levels,
                      const std::function<bool(uint32_t buffer)>& is_summed) {
  const auto has_axis = [&](uint32_t v) {
    const auto axis = axis_of_positions(graph.values[v]);
    return axis.has_value() && (!block.is_divided || *axis == 1);
  };
  // What leaves a region without features, as token_logps does, is of the part.
  const auto has_features = [&](uint32_t v) { return graph.values[v].axes->size() > 2; };
  const auto is_own_state = [&](uint32_t i) {
    return graph.buffers[i].kind == TENON_BUFFER_STATE && !is_summed(i);
  };
  return (block.is_divided || block.has(TENON_BLOCK_TOKENWISE)) &&
         (!levels.has_parts || can_run_on_part(graph, block)) && !block.inputs.empty() &&
         std::ranges::all_of(block.inputs, has_axis) &&
         std::ranges::all_of(block.outputs, has_axis) &&
         (!block.is_divided || std::ranges::all_of(block.outputs, has_features)) &&
         std::ranges::none_of(block.buffers, is_own_state);
}

}  // namespace

std::vector<Extent> block_extents(const ModelGraph& graph,
                                  DividedLevels levels,
                                  const std::function<bool(uint32_t buffer)>& is_summed) {
  const std::vector<bool> in_tiles =
      levels.has_tiles ? tileable_blocks(graph) : std::vector<bool>(graph.blocks.size(), false);
  std::vector<Extent> extents;
  for (size_t b = 0; b < graph.blocks.size(); ++b) {
    const ModelBlock& block = graph.blocks[b];
    const bool has_pieces = levels.has_pieces &&
                            can_run_on_piece(graph, block, levels, is_summed) &&
                            !(in_tiles[b] && has_divided_values(graph, block));
    extents.push_back(has_pieces                                           ? Extent::kPiece
                      : levels.has_parts && !can_run_on_part(graph, block) ? Extent::kWhole
                                                                           : Extent::kPart);
  }
  return extents;
}

void PositionLevels::divide(TensorGroup& group, int64_t positions) {
  group_ = &group;
  pieces_.clear();
  if (positions < 2) {
    return;
  }
  for (uint32_t r = 0; r < group.size(); ++r) {
    pieces_.push_back(positions_of_rank(positions, r, group.size()).length);
  }
}

at::Tensor PositionLevels::convert(
    at::Tensor tensor, int64_t axis, Extent from, Extent to, const std::string& what) const {
  if (has_pieces() && from == Extent::kPiece && to != Extent::kPiece) {
    tensor = joined_ranges(group_->ranks(), tensor, axis, pieces_, what);
  }
  if (sequences() != nullptr && (from == Extent::kWhole) != (to == Extent::kWhole)) {
    SequenceGroup& group = *sequences_->group;
    tensor = to == Extent::kWhole ? group.whole(tensor, axis, sequences_->parts, what)
                                  : group.part(tensor, axis, sequences_->parts);
  }
  if (has_pieces() && from != Extent::kPiece && to == Extent::kPiece) {
    tensor = range_of_rank(tensor, axis, pieces_, group_->rank());
  }
  return tensor;
}

}  // namespace tenon
