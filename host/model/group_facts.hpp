// SPDX-License-Identifier: Apache-2.0
//
// How a rank holds a group of parameters: the slices, the whole buffers that the rank keeps, and
// the blocks between which the parameters are whole. Runs and plans use the same rules. Not for
// bytes and dtypes (group_layout.hpp, planned_groups.hpp) nor for the transfers
// (sharded_parameters.hpp).
// Threads: any.
#pragma once

#include "host/model/graph_facts.hpp"
#include "host/model/group_layout.hpp"
#include "host/tensor/flat_group.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tenon {

class ParameterStore;

// Settings that decide which whole buffers a rank keeps.
struct ShardingRules {
  int stage = 3;          // of ZeRO, 1 to 3
  bool offloads = false;  // to host memory; implies stage 3
  // Free a unit's parameters between its forward and its backward; absent: all except the last.
  std::optional<bool> reshard_after_forward = {};
};

// Returns what a rank keeps of a group that has `num_slices` slices. Offload and
// `reshard_after_forward` apply the stage to a single slice too.
FlatSharing sharing_of(const ShardingRules& rules, int64_t num_slices);

struct GroupFacts {
  std::vector<uint32_t> users;   // blocks that read a parameter of it, ascending
  std::vector<uint32_t> blocks;  // all blocks of the users' units, ascending
  int64_t num_slices = 1;
  bool is_trainable = true;
  bool keeps_parameters = true;
  bool keeps_gradients = true;
  bool frees_gradients = false;  // its gradient is used and freed in the backward

  bool operator==(const GroupFacts&) const = default;
};

// Returns the facts of a planned group.
GroupFacts facts_of(const GroupLayout& layout, const FlatSharing& sharing);
// Returns the facts of the store's groups, by group. `graph` has the parameters of the store's
// graph, and may have other blocks.
std::vector<GroupFacts> group_facts(const ParameterStore& store, const ModelGraph& graph);

// Returns whether parameters or gradients of any group move between ranks or to the host.
bool moves_groups(std::span<const GroupFacts> groups, bool has_many_ranks);

// Blocks between which the parameters of a group are whole.
struct GroupUse {
  uint32_t first = 0;  // in forward; both ends are included
  uint32_t last = 0;
  // In backward, which visits `last_back` before `first_back`; absent: no block has a backward.
  std::optional<uint32_t> first_back = {};
  std::optional<uint32_t> last_back = {};
  bool stays_after_forward = false;  // whole between its forward and its backward

  bool operator==(const GroupUse&) const = default;
};

// Returns the use of a group by `blocks`, which are ascending. Without blocks, the first block of
// the graph uses it in forward.
GroupUse use_of(const GraphFacts& graph,
                std::span<const uint32_t> blocks,
                std::optional<bool> reshard_after_forward);

}  // namespace tenon
