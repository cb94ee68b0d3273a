// SPDX-License-Identifier: Apache-2.0
#include "host/model/group_layout.hpp"

#include <tenon/model.h>

#include "host/tensor/flat_group.hpp"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <compare>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

namespace tenon {
namespace {

struct Kind {
  uint32_t unit;  // its first block
  at::ScalarType stored;
  at::ScalarType seen;
  bool is_trainable;
  bool is_unsharded;
  uint32_t num_copies;
  std::vector<uint32_t> holders;
  auto operator<=>(const Kind&) const = default;
};

// Resolves the dtype of a parameter; `of_class` stands for TENON_CLASS_PARAM.
at::ScalarType resolved(const ModelParameter& parameter, at::ScalarType of_class) {
  if (parameter.dtype < TENON_CLASS_FIRST) {
    return static_cast<at::ScalarType>(parameter.dtype);
  }
  const bool is_kept = (parameter.flags & TENON_PARAM_KEEP_FP32) != 0;
  return is_kept && is_narrow(of_class) ? at::kFloat : of_class;
}

// Returns the blocks that use each parameter, also under the names of tied parameters; each once.
std::vector<std::vector<uint32_t>> users_of(const ModelGraph& graph) {
  std::vector<std::vector<uint32_t>> users(graph.parameters.size());
  for (uint32_t p = 0; p < graph.parameters.size(); ++p) {
    const ModelParameter& parameter = graph.parameters[p];
    auto& of = users[parameter.same_as == kNoIndex ? p : parameter.same_as];
    of.insert(of.end(), parameter.blocks.begin(), parameter.blocks.end());
  }
  for (auto& of : users) {
    std::ranges::sort(of);
    of.erase(std::ranges::unique(of).begin(), of.end());
  }
  return users;
}

// Returns the first blocks of the units of `blocks`, each once.
std::vector<uint32_t> units_of(const ModelGraph& graph, const std::vector<uint32_t>& blocks) {
  std::vector<uint32_t> units;
  for (const uint32_t b : blocks) {
    const uint32_t unit = graph.unit_of(b).first;
    if (units.empty() || units.back() != unit) {
      units.push_back(unit);
    }
  }
  return units;
}

// Returns all blocks of units, given by their first blocks.
std::vector<uint32_t> blocks_of(const ModelGraph& graph, const std::vector<uint32_t>& units) {
  std::vector<uint32_t> blocks;
  for (const uint32_t unit : units) {
    for (uint32_t b = unit; b <= graph.unit_of(unit).last; ++b) {
      blocks.push_back(b);
    }
  }
  return blocks;
}

Kind kind_of(const ModelGraph& graph, uint32_t p, uint32_t unit, const GroupRules& rules) {
  const ModelParameter& parameter = graph.parameters[p];
  const ParameterDtypes dtypes = parameter_dtypes(parameter, rules.stored, rules.seen);
  const bool is_frozen = (parameter.flags & TENON_PARAM_FROZEN) != 0;
  return {.unit = unit,
          .stored = dtypes.stored,
          .seen = dtypes.seen,
          .is_trainable = c10::isFloatingType(dtypes.stored) && !is_frozen,
          .is_unsharded = rules.is_unsharded && rules.is_unsharded(p),
          .num_copies = parameter.num_copies,
          .holders = parameter.holders};
}

}  // namespace

ParameterDtypes parameter_dtypes(const ModelParameter& parameter,
                                 at::ScalarType stored,
                                 at::ScalarType seen) {
  return {resolved(parameter, stored), resolved(parameter, seen)};
}

int64_t GroupLayout::num_elements() const {
  return std::accumulate(numels.begin(), numels.end(), int64_t{0});
}

std::vector<int64_t> GroupLayout::ends(int64_t num_slices) const {
  return flat_ends(numels, stored, seen, num_slices, block);
}

int64_t GroupLayout::flat_numel(int64_t num_slices) const {
  return ends(num_slices).back();
}

std::vector<GroupLayout> lay_out_groups(const ModelGraph& graph, const GroupRules& rules) {
  const auto users = users_of(graph);
  std::vector<GroupLayout> groups;
  std::map<Kind, size_t> group_of;
  for (uint32_t b = 0; b < graph.blocks.size(); ++b) {
    for (const uint32_t p : graph.blocks[b].parameters) {
      const ModelParameter& parameter = graph.parameters[p];
      if (parameter.same_as != kNoIndex || parameter.blocks.front() != b) {
        continue;
      }
      const std::vector<uint32_t> units = units_of(graph, users[p]);
      const Kind kind = kind_of(graph, p, units.front(), rules);
      const bool is_alone = units.size() != 1;
      const auto found = group_of.find(kind);
      const bool is_new = is_alone || found == group_of.end();
      if (is_new) {
        groups.push_back({.name = is_alone ? parameter.name : graph.blocks[b].unit_name(),
                          .users = {},
                          .blocks = blocks_of(graph, units),
                          .stored = kind.stored,
                          .seen = kind.seen,
                          .is_trainable = kind.is_trainable,
                          .is_unsharded = kind.is_unsharded,
                          .num_copies = kind.num_copies,
                          .holders = kind.holders,
                          .is_elsewhere = parameter.is_elsewhere,
                          .parameters = {},
                          .partitions = {},
                          .numels = {}});
        if (!is_alone) {
          group_of[kind] = groups.size() - 1;
        }
      }
      GroupLayout& group = is_new ? groups.back() : groups[found->second];
      std::vector<uint32_t> all;
      std::ranges::set_union(group.users, users[p], std::back_inserter(all));
      group.users = std::move(all);
      const uint32_t partition =
          kind.is_trainable && rules.partition_of ? rules.partition_of(p) : 0;
      if (kind.is_trainable && rules.block_of) {
        group.block = std::lcm(group.block, rules.block_of(p));
      }
      const auto at =
          std::ranges::upper_bound(group.partitions, partition) - group.partitions.begin();
      group.parameters.insert(group.parameters.begin() + at, p);
      group.numels.insert(group.numels.begin() + at,
                          c10::multiply_integers(parameter.shape_stored()));
      group.partitions.insert(group.partitions.begin() + at, partition);
    }
  }
  return groups;
}

}  // namespace tenon
