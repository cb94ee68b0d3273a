// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/recomputed_blocks.hpp"

#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

ModelGraph layers() {
  ModelGraph graph;
  for (const char* const name :
       {"embed", "layers.0.attention", "layers.0.mlp", "layers.1.attention", "layers.1.mlp"}) {
    ModelBlock block;
    block.name = name;
    if (block.name != "embed") {
      block.unit = block.name.substr(0, 8);
    }
    graph.blocks.push_back(block);
  }
  return graph;
}

}  // namespace

TEST_CASE("recompute is for no blocks, all blocks, or those that patterns match", "[train]") {
  const ModelGraph graph = layers();
  using Blocks = std::vector<bool>;
  CHECK(recomputed_blocks({"none"}, graph) == Blocks(5, false));
  CHECK(recomputed_blocks({}, graph) == Blocks(5, false));
  CHECK(recomputed_blocks({"blocks"}, graph) == Blocks(5, true));
  CHECK(recomputed_blocks({"layers.1"}, graph) == Blocks{false, false, false, true, true});
  CHECK(recomputed_blocks({"*.mlp", "embed"}, graph) == Blocks{true, false, true, false, true});
}

TEST_CASE("a pattern of recompute that matches nothing is refused", "[train]") {
  const ModelGraph graph = layers();
  CHECK_THROWS_WITH(recomputed_blocks({"layers.2"}, graph),
                    contains_text("[model.unmatched_recompute]") &&
                        contains_text("/train/recompute: 'layers.2' is neither") &&
                        contains_text("embed, layers.0, layers.0.attention, layers.0.mlp"));
  CHECK_THROWS_WITH(recomputed_blocks({"block"}, graph),
                    contains_text("[model.unmatched_recompute]"));
}

}  // namespace tenon
