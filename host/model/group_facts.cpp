// SPDX-License-Identifier: Apache-2.0
//
// Source: stages: Rajbhandari et al., ZeRO (2020), arXiv:1910.02054.
#include "host/model/group_facts.hpp"

#include "host/model/parameter_store.hpp"

#include <algorithm>

namespace tenon {

FlatSharing sharing_of(const ShardingRules& rules, int64_t num_slices) {
  const int stage = rules.offloads ? 3 : rules.stage;
  const bool is_forced = rules.offloads || rules.reshard_after_forward == true;
  const bool is_sliced = num_slices > 1 || is_forced;
  return {.num_slices = num_slices,
          .keeps_gradients = !is_sliced || stage < 2,
          .keeps_parameters = !is_sliced || stage < 3};
}

GroupFacts facts_of(const GroupLayout& layout, const FlatSharing& sharing) {
  return {.users = layout.users,
          .blocks = layout.blocks,
          .num_slices = sharing.num_slices,
          .is_trainable = layout.is_trainable,
          .keeps_parameters = sharing.keeps_parameters,
          .keeps_gradients = sharing.keeps_gradients && !sharing.frees_gradients,
          .frees_gradients = sharing.frees_gradients};
}

std::vector<GroupFacts> group_facts(const ParameterStore& store, const ModelGraph& graph) {
  std::vector<GroupFacts> facts;
  for (const FlatGroup& group : store.groups()) {
    const FlatSharing& sharing = group.sharing();
    facts.push_back({.users = {},
                     .blocks = {},
                     .num_slices = sharing.num_slices,
                     .is_trainable = group.is_trainable(),
                     .keeps_parameters = sharing.keeps_parameters,
                     .keeps_gradients = sharing.keeps_gradients,
                     .frees_gradients = sharing.frees_gradients});
  }
  for (uint32_t b = 0; b < graph.blocks.size(); ++b) {
    const ModelUnit unit = graph.unit_of(b);
    for (const uint32_t p : graph.blocks[b].parameters) {
      GroupFacts& group = facts[store.position(p).group];
      if (group.users.empty() || group.users.back() != b) {
        group.users.push_back(b);
      }
      std::vector<uint32_t>& blocks = group.blocks;
      const uint32_t next = blocks.empty() ? 0 : blocks.back() + 1;
      for (uint32_t of_unit = std::max(unit.first, next); of_unit <= unit.last; ++of_unit) {
        blocks.push_back(of_unit);
      }
    }
  }
  return facts;
}

bool moves_groups(std::span<const GroupFacts> groups, bool has_many_ranks) {
  return has_many_ranks || std::ranges::any_of(groups, [](const GroupFacts& group) {
           return group.num_slices > 1 || !group.keeps_parameters ||
                  !(group.keeps_gradients || group.frees_gradients);
         });
}

GroupUse use_of(const GraphFacts& graph,
                std::span<const uint32_t> blocks,
                std::optional<bool> reshard_after_forward) {
  GroupUse use;
  if (!blocks.empty()) {
    use.first = blocks.front();
    use.last = blocks.back();
  }
  for (const uint32_t b : blocks) {
    if (graph.has_backward(b)) {
      use.first_back = use.first_back.value_or(b);
      use.last_back = b;
    }
  }
  const bool is_last = use.last + 1 == graph.num_blocks();
  use.stays_after_forward = use.last_back.has_value() && !reshard_after_forward.value_or(!is_last);
  return use;
}

}  // namespace tenon
