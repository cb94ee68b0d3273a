// SPDX-License-Identifier: Apache-2.0
#include "host/model/stage_values.hpp"

#include "host/error/assert.hpp"

#include <algorithm>
#include <set>

namespace tenon {

StageValues::StageValues(const GraphFacts& facts,
                         uint32_t stage,
                         const std::vector<bool>& is_read_at_end)
    : facts_(facts), graph_(facts.graph()), stage_(stage), is_read_at_end_(is_read_at_end) {
  TENON_ASSERT(stage < graph_.stage_owners.size(), "the graph has the stage");
  if (!has_many_stages()) {
    return;
  }
  std::vector<uint32_t> read_at_end;
  for (uint32_t v = 0; v < is_read_at_end_.size(); ++v) {
    if (is_read_at_end_[v]) {
      read_at_end.push_back(v);
    }
  }
  traffic_ = traffic_of(graph_, value_routes(graph_, read_at_end), stage_, [&facts](uint32_t v) {
    return facts.has_gradient(v);
  });
  find_last_readers();
  find_inherited();
}

uint32_t StageValues::next(uint32_t block) const {
  for (uint32_t b = facts_.unit_of(block).last + 1; b < facts_.num_blocks(); ++b) {
    if (has(b)) {
      return b;
    }
  }
  return kNoIndex;
}

uint32_t StageValues::previous(uint32_t block) const {
  for (uint32_t b = facts_.unit_of(block).first; b-- > 0;) {
    if (has(b)) {
      return b;
    }
  }
  return kNoIndex;
}

bool StageValues::stays(uint32_t v) const {
  const ModelValue& value = graph_.values[v];
  if (!has_many_stages() || is_own(graph_.blocks[value.maker].stage)) {
    return value.is_read;
  }
  const auto last = static_cast<uint32_t>(graph_.stage_owners.size() - 1);
  return is_read_at_end_[v] && is_own(last);
}

bool StageValues::is_read_here_alone(uint32_t v) const {
  return std::ranges::all_of(graph_.values[v].users, [this](uint32_t b) { return has(b); });
}

void StageValues::find_last_readers() {
  last_read_.resize(facts_.num_blocks());
  std::set<uint32_t> sent;
  for (const StageTraffic::Lot& lot : traffic_.sends) {
    sent.insert(lot.values.begin(), lot.values.end());
  }
  for (uint32_t v = 0; v < graph_.values.size(); ++v) {
    const ModelValue& value = graph_.values[v];
    if (value.maker == kNoIndex || facts_.has_ids(v) || stays(v)) {
      continue;
    }
    uint32_t last = value.maker;
    for (const uint32_t user : value.users) {
      last = is_own(graph_.blocks[user].stage) ? user : last;
    }
    if (!has(last)) {
      continue;
    }
    if (sent.contains(v)) {
      last_sent_.push_back(v);
    } else {
      last_read_[last].push_back(v);
    }
  }
}

void StageValues::find_inherited() {
  std::set<uint32_t> received;
  for (const StageTraffic::Lot& lot : traffic_.receives) {
    received.insert(lot.values.begin(), lot.values.end());
  }
  for (uint32_t v = 0; v < graph_.values.size(); ++v) {
    const ModelValue& value = graph_.values[v];
    const bool is_read = std::ranges::any_of(value.users, [this](uint32_t b) { return has(b); }) ||
                         (is_last() && is_read_at_end_[v]);
    if (value.maker != kNoIndex && is_read && !has(value.maker) && !received.contains(v)) {
      inherited_.push_back(v);
    }
  }
}

}  // namespace tenon
