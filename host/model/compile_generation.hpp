// SPDX-License-Identifier: Apache-2.0
//
// Compiles the pass of text generation: the blocks that the logits depend on, with parameters
// gathered where they are used. Ranks of a pipeline run their own blocks, and send each value to
// the ranks that read it. All of them get the logits. Threads: any.
#pragma once

#include "host/model/program.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

struct GenerationOptions {
  uint32_t logits = kNoIndex;  // value that a block makes
  // By block: the block reads earlier positions from caches. The tokenwise blocks behind the last
  // one with caches then run on the last position only. Empty: all run on all positions.
  std::vector<bool> has_caches = {};
  bool has_many_ranks = false;
};

// Returns, by block, whether a value depends on it.
std::vector<bool> needed_for(const ModelGraph& graph, uint32_t value);

// Compiles a pass of kind kGenerate, for all stages of this rank. The stage of the program is the
// first of them, and stands for the rank in messages.
Program compile_generation(const GraphFacts& graph,
                           std::span<const GroupFacts> groups,
                           const GenerationOptions& options);

}  // namespace tenon
