// SPDX-License-Identifier: Apache-2.0
//
// Compiles programs: decides when the parameters of each group are gathered and freed, which values
// are kept, dropped, moved and made again, and in which order gradients are added and reduced.
// Invariant: the same arguments give the same program.
// Threads: any.
#pragma once

#include "host/model/program.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tenon {

// Settings of a recipe and of its losses.
struct ProgramOptions {
  // By block: the recipe asks for its recompute. Flags of a block may exclude it. Empty: none.
  std::vector<bool> recomputed = {};
  bool keeps_attention = false;    // recompute takes results of attention from the forward
  bool tiles = false;              // run the blocks that can (tileable_blocks) in tiles
  bool chunks = false;             // run tails and losses in chunks of T, if the graph has tails
  bool moves_activations = false;  // to an activation store
  // Values that losses and metrics read after forward; absent: all.
  std::optional<std::vector<uint32_t>> kept = {};
  std::optional<bool> reshard_after_forward = {};
  bool has_many_ranks = false;  // the run has more than one rank
  uint32_t stage = 0;           // of ModelGraph::stage_owners: compile the blocks of this stage
};

// Compiles a pass of kind kTrain, kEvaluate or kReplay. `groups` are those of the rank, by flat
// group. If the graph has several stages, the pass has the blocks of one of them, and messages to
// and from the stages of other ranks. The programs of a rank's stages share a MicrobatchState: what
// a stage leaves in it, later stages of the rank read without a message. Such a graph has no table
// rows and no replays.
Program compile_program(PassKind kind,
                        const GraphFacts& graph,
                        std::span<const GroupFacts> groups,
                        const ProgramOptions& options);

}  // namespace tenon
