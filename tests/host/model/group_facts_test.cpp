// SPDX-License-Identifier: Apache-2.0
//
// What ranks keep of groups by stage, and the blocks between which parameters are whole.
#include "host/model/group_facts.hpp"

#include "host/model/parameter_store.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "tests/host/model/random_graph.hpp"
#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("stages decide what a rank keeps; one slice is whole unless it is forced", "[model]") {
  const auto kept = [](const ShardingRules& rules, int64_t num_slices) {
    const FlatSharing sharing = sharing_of(rules, num_slices);
    CHECK(sharing.num_slices == num_slices);
    return std::pair(sharing.keeps_parameters, sharing.keeps_gradients);
  };
  CHECK(kept({.stage = 1}, 4) == std::pair(true, true));
  CHECK(kept({.stage = 2}, 4) == std::pair(true, false));
  CHECK(kept({.stage = 3}, 4) == std::pair(false, false));
  CHECK(kept({.stage = 1, .offloads = true}, 4) == std::pair(false, false));
  for (const int stage : {1, 2, 3}) {
    CHECK(kept({.stage = stage}, 1) == std::pair(true, true));
    CHECK(kept({.stage = stage, .reshard_after_forward = false}, 1) == std::pair(true, true));
    CHECK(kept({.stage = stage, .offloads = true}, 1) == std::pair(false, false));
  }
  CHECK(kept({.stage = 3, .reshard_after_forward = true}, 1) == std::pair(false, false));
  CHECK(kept({.stage = 2, .reshard_after_forward = true}, 1) == std::pair(true, false));
}

TEST_CASE("groups of a store and of a plan have the same facts", "[model]") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const ModelGraph graph = random_graph(seed);
    const ShardingRules rules{.stage = static_cast<int>(seed % 3) + 1};
    const int64_t num_slices = seed % 2 == 0 ? 1 : 2;
    const auto is_unsharded = [](uint32_t p) { return p % 3 == 0; };
    ParameterLayout layout;
    layout.partition_of = [](uint32_t) { return 0U; };
    layout.sharing = sharing_of(rules, num_slices);
    layout.is_unsharded = is_unsharded;
    const ParameterStore store(graph, layout);
    std::vector<GroupFacts> planned;
    for (const GroupLayout& group : lay_out_groups(graph, {.is_unsharded = is_unsharded})) {
      planned.push_back(facts_of(group, group.is_unsharded ? FlatSharing{} : layout.sharing));
    }
    CHECK((group_facts(store, graph) == planned));
  }
}

TEST_CASE(
    "a group is whole from its first to its last user, and in backward between those that "
    "have one",
    "[model]") {
  GraphOf made;
  const uint32_t x = made.field("x");
  std::vector<uint32_t> h;
  for (const char* const name : {"h0", "h1", "h2", "h3"}) {
    h.push_back(made.value(name));
  }
  const uint32_t frozen = made.parameter("frozen", true);
  made.block(block_of("a", "", {x}, {h[0]}, {frozen}));
  made.block(block_of("b", "u", {h[0]}, {h[1]}, {made.parameter("trained")}));
  made.block(block_of("c", "u", {h[1]}, {h[2]}, {frozen}));
  made.block(block_of("d", "", {x}, {h[3]}, {}));
  const GraphFacts facts = facts_of(made.graph);
  const std::vector<uint32_t> blocks = {0, 1, 2};
  const GroupUse use = use_of(facts, blocks, std::nullopt);
  CHECK(use == GroupUse{.first = 0, .last = 2, .first_back = 1, .last_back = 2});
  CHECK(use_of(facts, blocks, false).stays_after_forward);

  // Only the last unit's parameters stay, if a backward needs them.
  const std::vector<uint32_t> last = {1, 2, 3};
  CHECK(use_of(facts, last, std::nullopt).stays_after_forward);
  CHECK_FALSE(use_of(facts, last, true).stays_after_forward);
  const std::vector<uint32_t> without = {3};
  CHECK(use_of(facts, without, std::nullopt) == GroupUse{.first = 3, .last = 3});
}

}  // namespace tenon
