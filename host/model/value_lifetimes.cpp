// SPDX-License-Identifier: Apache-2.0
#include "host/model/value_lifetimes.hpp"

#include <algorithm>

namespace tenon {
namespace {

bool has_ids_of_lookup(const ModelGraph& graph, uint32_t v) {
  return std::ranges::any_of(graph.values, [v](const ModelValue& other) {
    return other.lookup.has_value() && other.lookup->ids == v;
  });
}

}  // namespace

std::vector<std::vector<uint32_t>> last_read_values(const ModelGraph& graph) {
  std::vector<std::vector<uint32_t>> by_block(graph.blocks.size());
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    const ModelValue& value = graph.values[v];
    if (value.maker != kNoIndex && !value.is_read && !has_ids_of_lookup(graph, v)) {
      by_block[value.users.empty() ? value.maker : value.users.back()].push_back(v);
    }
  }
  return by_block;
}

bool is_remade(const ModelGraph& graph,
               uint32_t v,
               const std::function<bool(uint32_t block)>& is_recomputed) {
  const ModelValue& value = graph.values[v];
  if (value.maker == kNoIndex || value.users.empty() || !is_recomputed(value.maker)) {
    return false;
  }
  const ModelUnit unit = graph.unit_of(value.maker);
  return std::ranges::all_of(value.users,
                             [&](uint32_t b) { return b <= unit.last && is_recomputed(b); }) &&
         !has_ids_of_lookup(graph, v);
}

std::vector<std::vector<uint32_t>> movable_values(
    const ModelGraph& graph,
    const std::function<bool(uint32_t block)>& is_light,
    const std::function<bool(uint32_t value)>& stays) {
  std::vector<std::vector<uint32_t>> by_block(graph.blocks.size());
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    const ModelValue& value = graph.values[v];
    const bool is_made = value.maker != kNoIndex && !value.users.empty();
    if (!is_made || has_ids_of_lookup(graph, v) || stays(v) ||
        !std::ranges::all_of(value.users, is_light)) {
      continue;
    }
    const uint32_t last = graph.unit_of(value.users.back()).last;
    if (last + 1 < graph.blocks.size()) {
      by_block[last].push_back(v);
    }
  }
  return by_block;
}

}  // namespace tenon
