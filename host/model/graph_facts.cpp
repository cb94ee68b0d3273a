// SPDX-License-Identifier: Apache-2.0
#include "host/model/graph_facts.hpp"

#include "host/model/joined_graph.hpp"

#include <algorithm>

namespace tenon {

GraphFacts::GraphFacts(const ModelGraph& graph, const std::function<bool(uint32_t p)>& is_trainable)
    : graph_(&graph),
      tails_(tail_blocks(graph)),
      is_tail_(graph.blocks.size(), false),
      last_read_(graph.blocks.size()),
      rows_(graph.blocks.size()) {
  for (uint32_t b = 0; b < graph.blocks.size(); ++b) {
    units_.push_back(graph.unit_of(b));
  }
  for (const uint32_t b : tails_) {
    is_tail_[b] = true;
  }
  if (!is_tail_.empty()) {
    is_tail_.back() = true;
  }
  find_paths(is_trainable);
  find_readers();
}

void GraphFacts::find_paths(const std::function<bool(uint32_t p)>& is_trainable) {
  const auto is_trained = [&](uint32_t p) {
    const uint32_t same_as = graph_->parameters[p].same_as;
    return is_trainable(same_as == kNoIndex ? p : same_as);
  };
  for (const ModelValue& value : graph_->values) {
    has_gradient_.push_back(value.lookup.has_value());
  }
  for (const ModelBlock& block : graph_->blocks) {
    const bool flows =
        std::ranges::any_of(block.parameters, is_trained) ||
        std::ranges::any_of(block.inputs, [this](uint32_t v) { return has_gradient(v); });
    has_backward_.push_back(flows);
    for (const uint32_t v : block.outputs) {
      has_gradient_[v] = flows;
    }
  }
}

void GraphFacts::find_readers() {
  has_ids_.assign(graph_->values.size(), false);
  for (const ModelValue& value : graph_->values) {
    if (value.lookup.has_value() && value.lookup->ids != kNoIndex) {
      has_ids_[value.lookup->ids] = true;
    }
  }
  for (uint32_t v = 0; v < graph_->values.size(); ++v) {
    const ModelValue& value = graph_->values[v];
    if (value.lookup.has_value() && !value.users.empty()) {
      rows_[value.users.front()].push_back(v);
    }
    if (value.maker != kNoIndex && !value.is_read && !has_ids(v)) {
      last_read_[value.users.empty() ? value.maker : value.users.back()].push_back(v);
    }
  }
}

bool GraphFacts::is_remade(uint32_t v,
                           const std::function<bool(uint32_t block)>& is_recomputed) const {
  const ModelValue& value = graph_->values[v];
  if (value.maker == kNoIndex || value.users.empty() || has_ids(v) || !is_recomputed(value.maker)) {
    return false;
  }
  const uint32_t last = unit_of(value.maker).last;
  return std::ranges::all_of(value.users,
                             [&](uint32_t b) { return b <= last && is_recomputed(b); });
}

std::vector<std::vector<uint32_t>> GraphFacts::movable_values(
    const std::function<bool(uint32_t block)>& is_light,
    const std::function<bool(uint32_t value)>& stays) const {
  std::vector<std::vector<uint32_t>> by_block(num_blocks());
  for (uint32_t v = 0; v < graph_->values.size(); ++v) {
    const ModelValue& value = graph_->values[v];
    const bool is_made = value.maker != kNoIndex && !value.users.empty();
    if (!is_made || has_ids(v) || stays(v) || !std::ranges::all_of(value.users, is_light)) {
      continue;
    }
    const uint32_t last = unit_of(value.users.back()).last;
    if (last + 1 < num_blocks()) {
      by_block[last].push_back(v);
    }
  }
  return by_block;
}

}  // namespace tenon
