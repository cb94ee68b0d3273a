// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/planned_activations.hpp"

#include <tenon/model.h>

#include <algorithm>

namespace tenon {

PlannedActivations::PlannedActivations(const PlanSubject& subject,
                                       const PlanChoice& choice,
                                       const GraphFacts& facts,
                                       const std::vector<int64_t>& grad_bytes)
    : subject_(subject),
      graph_(subject.graph),
      choice_(choice),
      facts_(facts),
      grad_bytes_(grad_bytes),
      value_bytes_(graph_.values.size(), 0),
      is_gone_(graph_.values.size(), false),
      moved_(graph_.blocks.size()) {
  measure_values();
  find_dropped_values();
  find_moved_values();
}

bool PlannedActivations::is_chunked(uint32_t b) const {
  return subject_.tile_share.has_value() && facts_.is_tail(b);
}

bool PlannedActivations::is_recomputed(uint32_t b) const {
  return choice_.recomputes && !is_chunked(b) &&
         (subject_.recomputable.empty() || subject_.recomputable[b]) &&
         !graph_.blocks[b].has(TENON_BLOCK_NO_RECOMPUTE | TENON_BLOCK_HAND_WRITTEN);
}

bool PlannedActivations::is_tiled(uint32_t b) const {
  return choice_.block_tile_share.has_value() && !is_chunked(b) && subject_.tileable[b];
}

void PlannedActivations::measure_values() {
  for (uint32_t b = 0; b < graph_.blocks.size(); ++b) {
    const ModelBlock& block = graph_.blocks[b];
    const double share = is_chunked(b) ? *subject_.tile_share : 1.0;
    for (size_t i = 0; i < block.outputs.size(); ++i) {
      value_bytes_[block.outputs[i]] =
          static_cast<int64_t>(share * static_cast<double>(subject_.costs[b].bytes_of_output[i]));
    }
    const std::vector<uint32_t>& rows = facts_.rows_first_read_by(b);
    for (size_t i = 0; i < rows.size(); ++i) {
      value_bytes_[rows[i]] = subject_.costs[b].bytes_of_rows[i];
    }
  }
}

// Finds the values that the runner drops after the forward of their unit: losses need the others.
void PlannedActivations::find_dropped_values() {
  for (uint32_t v = 0; v < graph_.values.size(); ++v) {
    is_dropped_.push_back(facts_.is_remade(v, [this](uint32_t b) { return is_recomputed(b); }));
  }
  for (const PlannedLoss& loss : subject_.losses) {
    for (const uint32_t v : loss.values) {
      is_dropped_[v] = false;
    }
  }
}

void PlannedActivations::find_moved_values() {
  if (!choice_.moves_activations) {
    return;
  }
  std::vector<bool> stays = is_dropped_;
  for (const PlannedLoss& loss : subject_.losses) {
    for (const uint32_t v : loss.values) {
      stays[v] = true;
    }
  }
  moved_ = facts_.movable_values([this](uint32_t b) { return is_light(b) && !facts_.is_tail(b); },
                                 [&stays](uint32_t v) { return stays[v]; });
}

int64_t PlannedActivations::output_bytes(uint32_t b) const {
  int64_t bytes = 0;
  for (const uint32_t v : graph_.blocks[b].outputs) {
    bytes += value_bytes_[v];
  }
  return bytes;
}

int64_t PlannedActivations::row_bytes(uint32_t b) const {
  int64_t bytes = 0;
  for (const uint32_t v : facts_.rows_first_read_by(b)) {
    bytes += value_bytes_[v];
  }
  return bytes;
}

int64_t PlannedActivations::held_outputs(uint32_t b) const {
  int64_t bytes = 0;
  for (const uint32_t v : graph_.blocks[b].outputs) {
    bytes += is_gone_[v] ? 0 : value_bytes_[v];
  }
  return bytes;
}

int64_t PlannedActivations::dropped_bytes(uint32_t first, uint32_t last) const {
  int64_t bytes = 0;
  for (uint32_t b = first; b <= last; ++b) {
    for (const uint32_t v : graph_.blocks[b].outputs) {
      bytes += is_dropped_[v] ? value_bytes_[v] : 0;
    }
  }
  return bytes;
}

bool PlannedActivations::has_dropped(uint32_t b) const {
  return std::ranges::any_of(graph_.blocks[b].outputs,
                             [this](uint32_t v) { return is_dropped_[v]; });
}

int64_t PlannedActivations::kept_bytes(uint32_t b, bool flows) const {
  if (!flows || is_tiled(b)) {
    return 0;
  }
  return is_recomputed(b) ? attention_bytes(b) : saved_bytes(b);
}

int64_t PlannedActivations::recompute_bytes(uint32_t b, bool flows) const {
  if (!is_recomputed(b)) {
    return 0;
  }
  if (is_tiled(b)) {  // runs again only for its outputs
    return has_dropped(b) ? dropped_bytes(b, b) : 0;
  }
  return output_bytes(b) + (flows ? saved_bytes(b) - attention_bytes(b) : 0);
}

int64_t PlannedActivations::second_outputs(uint32_t b) const {
  return is_recomputed(b) && !is_tiled(b) ? output_bytes(b) - dropped_bytes(b, b) : 0;
}

int64_t PlannedActivations::saved_bytes(uint32_t b) const {
  if (is_tiled(b)) {
    return 0;
  }
  const double share = is_chunked(b) ? *subject_.tile_share : 1.0;
  return static_cast<int64_t>(share * static_cast<double>(subject_.costs[b].saved_bytes));
}

int64_t PlannedActivations::attention_bytes(uint32_t b) const {
  return choice_.keeps_attention && is_recomputed(b) && !is_tiled(b)
             ? std::min(subject_.costs[b].attention_bytes, subject_.costs[b].saved_bytes)
             : 0;
}

int64_t PlannedActivations::parameter_grad_bytes(uint32_t b) const {
  int64_t bytes = 0;
  for (const uint32_t p : graph_.blocks[b].parameters) {
    bytes += grad_bytes_[p];
  }
  return bytes;
}

int64_t PlannedActivations::working_bytes(uint32_t b) const {
  const BlockCost& cost = subject_.costs[b];
  if (!is_chunked(b) && !is_tiled(b)) {
    return cost.working_bytes;
  }
  const int64_t results = std::min(cost.working_bytes, parameter_grad_bytes(b));
  const auto rest = static_cast<double>(cost.working_bytes - results);
  if (is_chunked(b)) {
    return results + static_cast<int64_t>(*subject_.tile_share * rest);
  }
  const double share = *choice_.block_tile_share;
  int64_t whole = 0;  // gradients of inputs, assembled from tiles
  for (const uint32_t v : graph_.blocks[b].inputs) {
    whole += share < 1 && facts_.has_gradient(v) ? value_bytes_[v] : 0;
  }
  const auto of_tile = static_cast<double>(cost.saved_bytes + cost.output_bytes) + rest;
  return results + whole + static_cast<int64_t>(share * of_tile);
}

int64_t PlannedActivations::moved_bytes(uint32_t last) const {
  if (!choice_.moves_activations || last + 1 == graph_.blocks.size()) {
    return 0;
  }
  int64_t bytes = 0;
  for (const uint32_t v : moved_[last]) {
    bytes += value_bytes_[v];
  }
  for (uint32_t b = facts_.unit_of(last).first; b <= last; ++b) {
    bytes += attention_bytes(b);
  }
  return bytes;
}

int64_t PlannedActivations::drop_moved(uint32_t last) {
  int64_t bytes = 0;
  for (const uint32_t v : moved_[last]) {
    if (graph_.values[v].users.front() >= facts_.unit_of(last).first) {
      is_gone_[v] = true;
      bytes += value_bytes_[v];
    }
  }
  return bytes;
}

uint32_t PlannedActivations::moved_before(uint32_t b) const {
  while (b-- > 0) {
    if (facts_.unit_of(b).last == b && moved_bytes(b) > 0) {
      return b;
    }
  }
  return static_cast<uint32_t>(graph_.blocks.size());
}

}  // namespace tenon
