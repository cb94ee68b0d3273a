// SPDX-License-Identifier: Apache-2.0
//
// Parts are counted unit by unit.
#include "host/model/divided_graph.hpp"

#include <tenon/draft/tensor.h>

#include "host/error/error.hpp"
#include "host/tensor/tensor_piece.hpp"

#include <ATen/Functions.h>

#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// Returns the indices along the axis that a rank has, in order: a unit of u belongs to rank r of t
// if their shares [i / u, (i + 1) / u) and [r / t, (r + 1) / t) of the whole overlap.
std::vector<int64_t> indices_of(const ModelSplit& split, RankIndex tensor) {
  std::vector<int64_t> indices;
  int64_t begin = 0;
  for (size_t part = 0; part < split.parts.size(); ++part) {
    const int64_t units = split.units[part];
    const int64_t size = split.parts[part] / units;
    for (int64_t i = 0; i < units; ++i) {
      const bool overlaps = i * tensor.count < (tensor.index + 1) * units &&
                            tensor.index * units < (i + 1) * tensor.count;
      for (int64_t at = 0; overlaps && at < size; ++at) {
        indices.push_back(begin + i * size + at);
      }
    }
    begin += split.parts[part];
  }
  return indices;
}

// A model of blocks that are declared by what they use.
class SplitGraph {
 public:
  uint32_t parameter(const std::string& name, std::optional<ModelSplit> split, uint32_t flags = 0) {
    ModelParameter made;
    made.name = name;
    made.split = std::move(split);
    made.shape = {3, 5};
    if (made.split) {
      made.shape[made.split->axis] =
          std::accumulate(made.split->parts.begin(), made.split->parts.end(), int64_t{0});
    }
    made.flags = flags;
    graph.parameters.push_back(std::move(made));
    return static_cast<uint32_t>(graph.parameters.size() - 1);
  }

  uint32_t tied(const std::string& name, uint32_t to) {
    ModelParameter made = graph.parameters[to];
    made.name = name;
    made.same_as = to;
    made.blocks.clear();
    graph.parameters.push_back(std::move(made));
    return static_cast<uint32_t>(graph.parameters.size() - 1);
  }

  uint32_t value(const std::string& name, std::optional<ModelSplit> split) {
    ModelValue made;
    made.name = name;
    made.split = std::move(split);
    graph.values.push_back(std::move(made));
    return static_cast<uint32_t>(graph.values.size() - 1);
  }

  void block(const std::string& name,
             uint32_t flags,
             const std::vector<uint32_t>& parameters,
             const std::vector<uint32_t>& inputs = {},
             const std::vector<uint32_t>& outputs = {}) {
    const auto b = static_cast<uint32_t>(graph.blocks.size());
    ModelBlock made;
    made.name = name;
    made.flags = flags;
    made.parameters = parameters;
    made.inputs = inputs;
    made.outputs = outputs;
    for (const uint32_t p : parameters) {
      graph.parameters[p].blocks.push_back(b);
    }
    for (const uint32_t v : inputs) {
      graph.values[v].users.push_back(b);
    }
    for (const uint32_t v : outputs) {
      graph.values[v].maker = b;
    }
    graph.blocks.push_back(std::move(made));
  }

  ModelGraph graph;
};

constexpr uint32_t kDivisible = TENON_BLOCK_DIVISIBLE;

ModelSplit split_of(std::vector<int64_t> parts, std::vector<int64_t> units, uint32_t axis = 0) {
  return {.axis = axis, .parts = std::move(parts), .units = std::move(units)};
}

std::vector<bool> divided_blocks(const ModelGraph& graph) {
  std::vector<bool> divided;
  for (const ModelBlock& block : graph.blocks) {
    divided.push_back(block.is_divided);
  }
  return divided;
}

// Two blocks of split parameters with a value between, then a block that knows no split. The second
// has units for many ranks beside those of `second`.
SplitGraph two_split_blocks(const ModelSplit& first, const ModelSplit& second) {
  SplitGraph made;
  const uint32_t a = made.parameter("a", first);
  const uint32_t b = made.parameter("b", second);
  const uint32_t norm = made.parameter("norm", {});
  const uint32_t many = made.parameter("many", split_of({12}, {12}));
  const uint32_t inner = made.value("inner", {});
  const uint32_t out = made.value("out", {});
  made.block("first", kDivisible, {a}, {}, {inner});
  made.block("second", kDivisible, {b, many}, {inner}, {out});
  made.block("third", 0, {norm}, {out});
  return made;
}

}  // namespace

TEST_CASE("a rank has the units of its share, in each part of a split", "[model]") {
  const ModelSplit split = GENERATE(split_of({12}, {12}),
                                    split_of({12}, {6}, 1),
                                    split_of({10}, {1}),
                                    split_of({16, 4}, {8, 2}),
                                    split_of({24, 8, 8}, {12, 4, 4}, 1),
                                    split_of({24, 2, 2}, {12, 1, 1}),
                                    split_of({36, 6, 9}, {12, 3, 3}));
  const int64_t size = std::accumulate(split.parts.begin(), split.parts.end(), int64_t{0});
  std::vector<int64_t> shape = {7, 7, 7};
  shape[split.axis] = size;
  const at::Tensor numbers = at::arange(size);
  int num_divided = 0;
  for (uint32_t ranks = 1; ranks <= 24; ++ranks) {
    CAPTURE(split.parts, split.units, ranks);
    bool is_even = true;
    for (const int64_t units : split.units) {
      is_even = is_even && (units % ranks == 0 || ranks % units == 0);
    }
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      if (!is_even) {
        CHECK_THROWS_AS(divided_part(split, shape, {rank, ranks}, "it"), Error);
        continue;
      }
      ++num_divided;
      const Box part = divided_part(split, shape, {rank, ranks}, "it");
      std::vector<int64_t> expected_shape = shape;
      expected_shape[split.axis] = static_cast<int64_t>(indices_of(split, {rank, ranks}).size());
      CHECK(part.size == expected_shape);
      // Numbers along the axis, the same for all other indices.
      std::vector<int64_t> view = {1, 1, 1};
      view[split.axis] = size;
      const at::Tensor whole = numbers.view(view).expand(shape).contiguous();
      const at::Tensor values =
          values_of(TensorPiece(shape, part), whole).view(expected_shape).movedim(split.axis, 0);
      const at::Tensor expected = at::tensor(indices_of(split, {rank, ranks}));
      CHECK(at::equal(values, expected.view({-1, 1, 1}).expand_as(values)));
    }
  }
  CHECK(num_divided > 1);
}

TEST_CASE("blocks are divided with their split parameters", "[model]") {
  SplitGraph made = two_split_blocks(split_of({8}, {4}), split_of({8}, {2}, 1));
  for (uint32_t rank = 0; rank < 4; ++rank) {
    ModelGraph graph = made.graph;
    divide_graph(graph, {rank, 4}, IndivisibleBlocks::kRefuse);
    CHECK(divided_blocks(graph) == std::vector<bool>{true, true, false});
    CHECK(graph.parameters[0].part == Box{{2 * rank, 0}, {2, 5}});
    CHECK(graph.parameters[0].stored_part() == graph.parameters[0].part);
    CHECK(graph.parameters[0].num_copies == 1);
    CHECK(graph.parameters[1].part == Box{{0, 4 * (rank / 2)}, {3, 4}});
    CHECK(graph.parameters[1].num_copies == 2);
    CHECK_FALSE(graph.parameters[1].is_stored_whole);
    CHECK_FALSE(graph.parameters[2].part.has_value());
    CHECK(graph.parameters[2].num_copies == 4);
    CHECK(graph.parameters[2].is_stored_whole);
  }
}

TEST_CASE("with one rank, nothing is divided", "[model]") {
  SplitGraph made = two_split_blocks(split_of({8}, {4}), split_of({8}, {2}, 1));
  divide_graph(made.graph, {0, 1}, IndivisibleBlocks::kRefuse);
  CHECK(divided_blocks(made.graph) == std::vector<bool>{false, false, false});
  for (const ModelParameter& parameter : made.graph.parameters) {
    CHECK_FALSE(parameter.part.has_value());
    CHECK(parameter.num_copies == 1);
    CHECK(parameter.is_stored_whole);
  }
}

TEST_CASE("a matrix whose parts have different copies is stored whole", "[model]") {
  SplitGraph made;
  const uint32_t fused = made.parameter("qkv", split_of({16, 4, 4}, {8, 2, 2}));
  const uint32_t shared = made.parameter("key", split_of({4}, {1}));
  made.block("attention", kDivisible, {fused, shared});
  ModelGraph graph = made.graph;
  divide_graph(graph, {1, 4}, IndivisibleBlocks::kRefuse);
  CHECK(graph.parameters[0].part->size == std::vector<int64_t>{4 + 2 + 2, 5});
  CHECK(graph.parameters[0].is_stored_whole);
  CHECK(graph.parameters[0].num_copies == 4);
  CHECK_FALSE(graph.parameters[1].part.has_value());  // all ranks have the only unit
  CHECK(graph.parameters[1].num_copies == 4);

  graph = made.graph;
  divide_graph(graph, {1, 2}, IndivisibleBlocks::kRefuse);
  CHECK_FALSE(graph.parameters[0].is_stored_whole);
  CHECK(graph.parameters[0].num_copies == 1);
}

TEST_CASE("degrees that divide no units are refused, or blocks run whole", "[model]") {
  SplitGraph made = two_split_blocks(split_of({12, 6}, {12, 6}), split_of({8}, {4}, 1));
  ModelGraph graph = made.graph;
  CHECK_THROWS_WITH(divide_graph(graph, {0, 3}, IndivisibleBlocks::kRefuse),
                    contains_text("[model.indivisible] /parallel/tensor 3 cannot divide parameter "
                                  "'b' of block 'second': it has 4 units, and neither 4 nor 3"));
  graph = made.graph;
  CHECK_THROWS_WITH(divide_graph(graph, {0, 4}, IndivisibleBlocks::kRefuse),
                    contains_text("[model.indivisible] /parallel/tensor 4 cannot divide parameter "
                                  "'a' of block 'first': part 1 has 6 units"));
  graph = made.graph;
  divide_graph(graph, {0, 3}, IndivisibleBlocks::kRunWhole);
  CHECK(divided_blocks(graph) == std::vector<bool>{true, false, false});
  CHECK(graph.parameters[0].part.has_value());
  CHECK_FALSE(graph.parameters[1].part.has_value());
  CHECK(graph.parameters[1].num_copies == 3);
}

TEST_CASE("ranks that would add the same terms are refused", "[model]") {
  SplitGraph made;
  const uint32_t heads = made.parameter("heads", split_of({12}, {2}));
  const uint32_t keys = made.parameter("keys", split_of({6}, {1}));
  const uint32_t sum = made.value("sum", std::nullopt);
  made.block("attention", kDivisible, {heads, keys}, {}, {sum});
  for (const uint32_t ranks : {4U, 6U}) {
    ModelGraph graph = made.graph;
    CHECK_THROWS_WITH(divide_graph(graph, {0, ranks}, IndivisibleBlocks::kRefuse),
                      contains_text("cannot divide block 'attention': what it divides has at most "
                                    "2 units"));
    divide_graph(graph, {0, ranks}, IndivisibleBlocks::kRunWhole);
    CHECK(divided_blocks(graph) == std::vector<bool>{false});
  }
  divide_graph(made.graph, {0, 2}, IndivisibleBlocks::kRefuse);
  CHECK(divided_blocks(made.graph) == std::vector<bool>{true});
  // Results that ranks share are no sum.
  SplitGraph shared;
  const uint32_t key = shared.parameter("key", split_of({6}, {2}));
  const uint32_t value = shared.value("value", split_of({6}, {2}));
  shared.block("keys", kDivisible, {key}, {}, {value});
  divide_graph(shared.graph, {1, 4}, IndivisibleBlocks::kRefuse);
  CHECK(divided_blocks(shared.graph) == std::vector<bool>{true});
}

TEST_CASE("a tied parameter is divided if all its blocks are", "[model]") {
  SplitGraph made;
  const uint32_t table = made.parameter("table", split_of({8}, {8}));
  const uint32_t head = made.tied("head", table);
  const uint32_t other = made.parameter("other", split_of({8}, {8}));
  made.block("embed", kDivisible, {table, other});
  made.block("between", kDivisible, {other});
  SECTION("all are") {
    made.block("logits", kDivisible, {head});
    divide_graph(made.graph, {1, 2}, IndivisibleBlocks::kRefuse);
    CHECK(divided_blocks(made.graph) == std::vector<bool>{true, true, true});
    CHECK(made.graph.parameters[head].part == Box{{4, 0}, {4, 5}});
    CHECK(made.graph.parameters[head].num_copies == 1);
    CHECK_FALSE(made.graph.parameters[head].is_stored_whole);
  }
  SECTION("one is not: whatever shares parameters with its blocks runs whole") {
    made.block("logits", 0, {head});
    // Of three ranks, which the units do not divide by, too: nothing is divided, nothing refused.
    divide_graph(made.graph, {1, GENERATE(2U, 3U)}, IndivisibleBlocks::kRefuse);
    CHECK(divided_blocks(made.graph) == std::vector<bool>{false, false, false});
    CHECK_FALSE(made.graph.parameters[table].part.has_value());
    CHECK_FALSE(made.graph.parameters[other].part.has_value());
  }
}

TEST_CASE("values are divided by the blocks that make them", "[model]") {
  SplitGraph made;
  const ModelSplit split = split_of({8}, {8});
  const uint32_t w = made.parameter("w", split);
  const uint32_t given = made.value("given", split);
  const uint32_t hidden = made.value("hidden", split);
  const uint32_t plain = made.value("plain", split);
  made.block("makes", kDivisible, {w}, {}, {hidden});
  made.block("reads", kDivisible, {}, {hidden}, {});
  made.block("undeclared", 0, {}, {hidden}, {plain});
  made.block("reads plain", kDivisible, {}, {plain}, {});
  made.block("reads the batch", kDivisible, {}, {given}, {});
  divide_graph(made.graph, {0, 2}, IndivisibleBlocks::kRefuse);
  CHECK(divided_blocks(made.graph) == std::vector<bool>{true, true, false, false, false});
  CHECK(made.graph.values[hidden].is_divided);
  CHECK_FALSE(made.graph.values[plain].is_divided);
  CHECK_FALSE(made.graph.values[given].is_divided);
}

TEST_CASE("parameters inside of a region have no split, and divisible blocks", "[model]") {
  SplitGraph made;
  const bool is_split = GENERATE(true, false);
  const uint32_t norm = made.parameter(
      "norm", is_split ? std::optional(split_of({8}, {8})) : std::nullopt, TENON_PARAM_INSIDE);
  made.block("block", is_split ? kDivisible : 0, {norm});
  const uint32_t ranks = GENERATE(1U, 2U);
  CHECK_THROWS_WITH(divide_graph(made.graph, {0, ranks}, IndivisibleBlocks::kRunWhole),
                    contains_text("[model.bad_graph] parameter 'norm' of block 'block'") &&
                        contains_text(is_split ? "has a split" : "does not set"));
}

TEST_CASE("whole parameters are stored with all copies, and blocks get parts", "[model]") {
  SplitGraph made;
  const uint32_t w = made.parameter("w", split_of({8}, {8}));
  const uint32_t head = made.tied("head", w);
  made.block("block", kDivisible, {w, head});
  divide_graph(made.graph, {1, 2}, IndivisibleBlocks::kRefuse);
  store_whole(made.graph, {1, 2}, {true, false});
  for (const uint32_t p : {w, head}) {
    CHECK(made.graph.parameters[p].part == Box{{4, 0}, {4, 5}});
    CHECK(made.graph.parameters[p].is_stored_whole);
    CHECK_FALSE(made.graph.parameters[p].stored_part().has_value());
    CHECK(made.graph.parameters[p].num_copies == 2);
  }
}

TEST_CASE("whole gradients are added by the first rank, partial ones by all", "[model]") {
  SplitGraph made;
  const uint32_t split = made.parameter("w", split_of({8}, {8}));
  const uint32_t shared = made.parameter("key", split_of({4}, {1}));
  const uint32_t inside = made.parameter("norm", {}, TENON_PARAM_INSIDE);
  const uint32_t outside = made.parameter("bias", {});
  made.block("divided", kDivisible, {split, shared, inside, outside});
  const uint32_t alone = made.parameter("alone", split_of({8}, {8}));
  made.block("undeclared", 0, {alone});
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const RankIndex tensor = {rank, 2};
    ModelGraph graph = made.graph;
    divide_graph(graph, tensor, IndivisibleBlocks::kRefuse);
    for (const uint32_t p : {split, shared, inside}) {
      CHECK(adds_gradient(graph, 0, p, tensor, false));
    }
    CHECK(adds_gradient(graph, 0, outside, tensor, false) == (rank == 0));
    CHECK(adds_gradient(graph, 0, outside, tensor, true));
    CHECK(adds_gradient(graph, 1, alone, tensor, false) == (rank == 0));
  }
}

}  // namespace tenon
