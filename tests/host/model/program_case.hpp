// SPDX-License-Identifier: Apache-2.0
//
// Graphs at random with what a rank keeps of their groups, and settings of a recipe.
#pragma once

#include "host/model/compile_program.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/host/model/random_graph.hpp"

namespace tenon {

struct ProgramCase {
  ModelGraph graph;
  std::vector<GroupFacts> groups;
  ProgramOptions options;
};

inline ProgramOptions random_options(ModelGraph& graph, RandomGraph& of) {
  Draw& draw = of.draw();
  ProgramOptions options;
  if (draw.chance(60)) {
    const uint32_t percent = draw.one_of(std::vector<uint32_t>{60, 100});
    for (size_t b = 0; b < graph.blocks.size(); ++b) {
      options.recomputed.push_back(draw.chance(percent));
    }
    options.keeps_attention = draw.chance(50);
  }
  options.tiles = draw.chance(40);
  options.chunks = draw.chance(40);
  options.moves_activations = draw.chance(40);
  if (draw.chance(40)) {
    options.reshard_after_forward = draw.chance(50);
  }
  std::vector<uint32_t> kept = {graph.blocks.back().outputs.front()};
  for (const uint32_t v : of.trained_values()) {
    if (!options.chunks && draw.chance(15)) {
      kept.push_back(v);
    }
  }
  for (const uint32_t v : kept) {
    graph.values[v].is_read = true;
  }
  if (draw.chance(80)) {
    options.kept = kept;
  }
  return options;
}

// Sharding of any stage, on up to 8 ranks, with some groups that each rank keeps whole.
inline void share_groups(ProgramCase& of, Draw& draw) {
  const uint32_t shard = draw.one_of(std::vector<uint32_t>{1, 1, 2, 4});
  const uint32_t replicate = draw.number(1, 2);
  const bool frees = shard * replicate == 1 && draw.chance(40);
  of.options.has_many_ranks = shard * replicate > 1;
  const ShardingRules rules{.stage = static_cast<int>(draw.number(1, 3)),
                            .offloads = !frees && draw.chance(15),
                            .reshard_after_forward = of.options.reshard_after_forward};
  const uint32_t unsharded = draw.number(0, 4);
  for (const GroupLayout& layout :
       lay_out_groups(of.graph, {.is_unsharded = [&](uint32_t p) { return p % 5 == unsharded; }})) {
    FlatSharing sharing = layout.is_unsharded || frees ? FlatSharing{} : sharing_of(rules, shard);
    sharing.frees_gradients = frees;
    of.groups.push_back(facts_of(layout, sharing));
  }
}

inline ProgramCase random_case(uint64_t seed) {
  RandomGraph of(seed);
  ProgramCase result{.graph = of.make(), .groups = {}, .options = {}};
  result.options = random_options(result.graph, of);
  share_groups(result, of.draw());
  return result;
}

}  // namespace tenon
