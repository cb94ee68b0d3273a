// SPDX-License-Identifier: Apache-2.0
//
// Facts of random graphs against searches through the graph.
#include "host/model/graph_facts.hpp"

#include "host/model/joined_graph.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "tests/host/model/random_graph.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// Whether something that is trained lies upstream of block `b`, its own parameters included.
bool is_below_trained(const ModelGraph& graph, uint32_t b) {
  for (const uint32_t p : graph.blocks[b].parameters) {
    if (is_trainable(graph, p)) {
      return true;
    }
  }
  return std::ranges::any_of(graph.blocks[b].inputs, [&](uint32_t v) {
    const ModelValue& value = graph.values[v];
    return value.lookup.has_value() ||
           (value.maker != kNoIndex && is_below_trained(graph, value.maker));
  });
}

bool has_ids(const ModelGraph& graph, uint32_t v) {
  return std::ranges::any_of(graph.values, [v](const ModelValue& value) {
    return value.lookup.has_value() && value.lookup->ids == v;
  });
}

}  // namespace

TEST_CASE("facts of random graphs are those that a search finds", "[model]") {
  size_t num_with_rows = 0;
  size_t num_frozen = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    const ModelGraph graph = random_graph(seed);
    const GraphFacts facts = facts_of(graph);
    REQUIRE(facts.num_blocks() == graph.blocks.size());
    for (uint32_t b = 0; b < graph.blocks.size(); ++b) {
      REQUIRE(facts.has_backward(b) == is_below_trained(graph, b));
      REQUIRE(facts.unit_of(b) == graph.unit_of(b));
      num_frozen += facts.has_backward(b) ? 0 : 1;
      num_with_rows += facts.rows_first_read_by(b).size();
      for (const uint32_t v : facts.rows_first_read_by(b)) {
        REQUIRE(graph.values[v].users.front() == b);
      }
      const bool is_last = b + 1 == graph.blocks.size();
      const std::vector<uint32_t> tails = tail_blocks(graph);
      REQUIRE(facts.is_tail(b) == (is_last || std::ranges::find(tails, b) != tails.end()));
      for (const uint32_t v : facts.last_read_by(b)) {
        const ModelValue& value = graph.values[v];
        REQUIRE(b == (value.users.empty() ? value.maker : value.users.back()));
      }
    }
    std::multiset<uint32_t> last_read;
    for (uint32_t b = 0; b < graph.blocks.size(); ++b) {
      last_read.insert(facts.last_read_by(b).begin(), facts.last_read_by(b).end());
    }
    for (uint32_t v = 0; v < graph.values.size(); ++v) {
      const ModelValue& value = graph.values[v];
      const bool is_made = value.maker != kNoIndex;
      REQUIRE(facts.has_gradient(v) ==
              (value.lookup.has_value() || (is_made && is_below_trained(graph, value.maker))));
      REQUIRE(facts.has_ids(v) == has_ids(graph, v));
      REQUIRE(last_read.count(v) == (is_made && !value.is_read && !has_ids(graph, v) ? 1 : 0));
    }
  }
  CHECK(num_with_rows > 100);
  CHECK(num_frozen > 100);
}

TEST_CASE("a recompute makes the values again that only its unit reads", "[model]") {
  GraphOf made;
  const uint32_t x = made.field("x");
  const uint32_t inside = made.value("inside");
  const uint32_t outside = made.value("outside");
  const uint32_t y = made.value("y", true);
  made.block(block_of("a", "u", {x}, {inside, outside}, {}));
  made.block(block_of("b", "u", {inside, outside}, {}, {}));
  made.block(block_of("c", "", {outside}, {y}, {}));
  const GraphFacts facts = facts_of(made.graph);
  const auto all = [](uint32_t) { return true; };
  CHECK(facts.is_remade(inside, all));
  CHECK_FALSE(facts.is_remade(inside, [](uint32_t b) { return b != 1; }));
  CHECK_FALSE(facts.is_remade(inside, [](uint32_t b) { return b != 0; }));
  CHECK_FALSE(facts.is_remade(outside, all));
  CHECK_FALSE(facts.is_remade(x, all));
  CHECK_FALSE(facts.is_remade(y, all));
}

TEST_CASE("values move behind the last unit that reads them, except those of the last unit",
          "[model]") {
  GraphOf made;
  const uint32_t x = made.field("x");
  const uint32_t first = made.value("first");
  const uint32_t second = made.value("second");
  const uint32_t third = made.value("third");
  made.block(block_of("a", "", {x}, {first}, {}));
  made.block(block_of("b", "u", {first}, {second}, {}));
  made.block(block_of("c", "u", {first}, {}, {}));
  made.block(block_of("d", "", {second}, {third}, {}));
  const GraphFacts facts = facts_of(made.graph);
  const auto all = [](uint32_t) { return true; };
  const auto none = [](uint32_t) { return false; };
  using Lists = std::vector<std::vector<uint32_t>>;
  CHECK(facts.movable_values(all, none) == Lists{{}, {}, {first}, {}});
  CHECK(facts.movable_values(all, all) == Lists(4));
  CHECK(facts.movable_values([](uint32_t b) { return b != 2; }, none) == Lists(4));
}

}  // namespace tenon
