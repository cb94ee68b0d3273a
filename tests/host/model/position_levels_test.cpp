// SPDX-License-Identifier: Apache-2.0
#include "host/model/position_levels.hpp"

#include <tenon/draft/context.h>
#include <tenon/draft/tensor.h>
#include <tenon/model.h>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/thread_ranks.hpp"

namespace tenon {
namespace {

// A range of the positions of [2, T, 3] that rank `index` of `count` has: the longer ones first.
at::Tensor range_of(const at::Tensor& whole, int64_t index, int64_t count) {
  int64_t begin = 0;
  int64_t length = 0;
  for (int64_t r = 0; r <= index; ++r) {
    begin += length;
    length = whole.size(1) / count + (r < whole.size(1) % count ? 1 : 0);
  }
  return whole.narrow(1, begin, length);
}

// One block, from x to y.
ModelGraph graph_of(uint32_t flags, const std::vector<Axis>& axes, bool is_divided) {
  ModelGraph graph;
  graph.values.resize(2);
  graph.values[0].name = "x";
  graph.values[0].axes = {{"B", -1}, {"T", -1}, {"", 4}};
  graph.values[1].name = "y";
  graph.values[1].axes = axes;
  graph.values[1].maker = 0;
  ModelBlock block;
  block.name = "block";
  block.flags = flags;
  block.inputs = {0};
  block.outputs = {1};
  block.is_divided = is_divided;
  graph.blocks.push_back(block);
  return graph;
}

Extent extent_of(const ModelGraph& graph, DividedLevels levels, bool is_summed = false) {
  return block_extents(graph, levels, [is_summed](uint32_t) { return is_summed; }).front();
}

}  // namespace

TEST_CASE("pieces, parts and whole sequences become each other", "[model]") {
  constexpr uint32_t kParts = 2;
  constexpr uint32_t kPieces = 3;
  for (const int64_t positions : {2, 3, 5, 7, 12}) {
    const at::Tensor whole = at::arange(2 * positions * 3, at::kDouble).view({2, positions, 3});
    std::vector<int> is_right(kParts * kPieces);  // by rank: Catch asserts on one thread
    run_ranks(
        {.shard = 1, .tensor = kPieces, .context = kParts},
        kParts * kPieces,
        [&](RankGroups& ranks) {
          SequenceGroup sequences(ranks.context(), ContextBy::kHeads);
          TensorGroup tensor(ranks.tensor());
          Batch batch;
          batch.positions =
              BatchPositions{.range = {}, .whole = positions, .sequences = {}, .position_ids = {}};
          PositionLevels levels;
          levels.divide(DividedSequences{.group = &sequences, .parts = sequences.parts_of(batch)});
          const at::Tensor part = range_of(whole, sequences.rank(), kParts);
          levels.divide(tensor, part.size(1));
          const bool has_pieces = part.size(1) > 1;  // one position is not divided
          const at::Tensor piece = has_pieces ? range_of(part, tensor.rank(), kPieces) : part;
          const std::vector<at::Tensor> held = {piece, part, whole};
          bool is_equal = levels.has_pieces() == has_pieces;
          for (const Extent from : {Extent::kPiece, Extent::kPart, Extent::kWhole}) {
            for (const Extent to : {Extent::kPiece, Extent::kPart, Extent::kWhole}) {
              const at::Tensor found =
                  levels.convert(held[static_cast<size_t>(from)], 1, from, to, "a test");
              is_equal = is_equal && found.equal(held[static_cast<size_t>(to)]);
            }
          }
          is_right[kPieces * sequences.rank() + tensor.rank()] = is_equal ? 1 : 0;
        });
    INFO(positions << " positions");
    CHECK(is_right == std::vector<int>(kParts * kPieces, 1));
  }
}

TEST_CASE("the flags and the axes of a block say on which positions it runs", "[model]") {
  const std::vector<Axis> features = {{"B", -1}, {"T", -1}, {"", 4}};
  const std::vector<Axis> numbers = {{"B", -1}, {"T", -1}};
  const std::vector<Axis> of_samples = {{"B", -1}, {"", 4}};
  const DividedLevels pieces = {.has_pieces = true};
  const DividedLevels parts = {.has_parts = true};
  const DividedLevels both = {.has_parts = true, .has_pieces = true};

  const ModelGraph tokenwise = graph_of(TENON_BLOCK_TOKENWISE, features, false);
  CHECK(extent_of(tokenwise, pieces) == Extent::kPiece);
  CHECK(extent_of(tokenwise, parts) == Extent::kPart);
  CHECK(extent_of(tokenwise, both) == Extent::kPiece);
  const ModelGraph undeclared = graph_of(0, features, false);
  CHECK(extent_of(undeclared, pieces) == Extent::kPart);
  CHECK(extent_of(undeclared, both) == Extent::kWhole);
  const ModelGraph attention = graph_of(TENON_BLOCK_CONTEXT, features, false);
  CHECK(extent_of(attention, both) == Extent::kPart);

  CHECK(extent_of(graph_of(TENON_BLOCK_CONTEXT, features, true), both) == Extent::kPiece);
  CHECK(extent_of(graph_of(0, features, true), pieces) == Extent::kPiece);
  CHECK(extent_of(graph_of(0, features, true), both) == Extent::kWhole);
  // The result of token_logps, and a mean over positions.
  CHECK(extent_of(graph_of(TENON_BLOCK_TOKENWISE, numbers, true), pieces) == Extent::kPart);
  CHECK(extent_of(graph_of(TENON_BLOCK_TOKENWISE, of_samples, true), pieces) == Extent::kPart);
}

TEST_CASE("a block whose state each rank would set runs on the part", "[model]") {
  ModelGraph graph =
      graph_of(TENON_BLOCK_TOKENWISE, {{"B", -1}, {"T", -1}, {"", 4}}, /*is_divided=*/false);
  graph.buffers.resize(1);
  graph.buffers[0].kind = TENON_BUFFER_STATE;
  graph.blocks[0].buffers = {0};
  CHECK(extent_of(graph, {.has_pieces = true}) == Extent::kPart);
  CHECK(extent_of(graph, {.has_pieces = true}, /*is_summed=*/true) == Extent::kPiece);
}

}  // namespace tenon
