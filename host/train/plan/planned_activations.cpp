// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/planned_activations.hpp"

#include <tenon/model.h>

#include "host/train/plan/planned_groups.hpp"

#include <algorithm>

namespace tenon {
namespace {

int64_t part_of(int64_t bytes, double share) {
  return static_cast<int64_t>(share * static_cast<double>(bytes));
}

}  // namespace

std::vector<int64_t> parameter_gradient_bytes(const PlanSubject& subject) {
  const std::vector<ModelParameter>& parameters = subject.graph.parameters;
  std::vector<int64_t> bytes(parameters.size(), 0);
  for (const GroupLayout& layout : subject.groups) {
    for (size_t i = 0; layout.is_trainable && i < layout.parameters.size(); ++i) {
      bytes[layout.parameters[i]] = layout.numels[i] * size_of(layout.seen);
    }
  }
  for (size_t p = 0; p < parameters.size(); ++p) {
    if (const uint32_t same_as = parameters[p].same_as; same_as != kNoIndex) {
      bytes[p] = bytes[same_as];
    }
  }
  return bytes;
}

PlannedActivations::PlannedActivations(const PlanSubject& subject,
                                       const PlanChoice& choice,
                                       const GraphFacts& facts,
                                       bool has_chunks)
    : subject_(subject),
      graph_(subject.graph),
      choice_(choice),
      facts_(facts),
      has_chunks_(has_chunks),
      chunk_share_(has_chunks ? subject.tile_share.value_or(1.0) : 1.0),
      gradient_bytes_(tenon::parameter_gradient_bytes(subject)),
      value_bytes_(graph_.values.size(), 0) {
  measure_values();
}

void PlannedActivations::measure_values() {
  for (uint32_t b = 0; b < graph_.blocks.size(); ++b) {
    const ModelBlock& block = graph_.blocks[b];
    const double share = has_chunks_ && facts_.is_tail(b) ? chunk_share_ : 1.0;
    for (size_t i = 0; i < block.outputs.size(); ++i) {
      value_bytes_[block.outputs[i]] = part_of(subject_.costs[b].bytes_of_output[i], share);
    }
    const std::vector<uint32_t>& rows = facts_.rows_first_read_by(b);
    for (size_t i = 0; i < rows.size(); ++i) {
      value_bytes_[rows[i]] = subject_.costs[b].bytes_of_rows[i];
    }
  }
}

double PlannedActivations::share_of(const Instruction& call) const {
  return call.has(kInChunk) ? chunk_share_ : 1.0;
}

int64_t PlannedActivations::saved_bytes(const Instruction& forward) const {
  const uint32_t b = forward.block;
  const bool saves = forward.has(kRecords) || graph_.blocks[b].has(TENON_BLOCK_HAND_WRITTEN);
  return saves && facts_.has_backward(b) ? part_of(subject_.costs[b].saved_bytes, share_of(forward))
                                         : 0;
}

int64_t PlannedActivations::attention_bytes(uint32_t b) const {
  return std::min(subject_.costs[b].attention_bytes, subject_.costs[b].saved_bytes);
}

int64_t PlannedActivations::input_gradient_bytes(const Instruction& backward, uint32_t v) const {
  return facts_.has_gradient(v) ? part_of(value_bytes_[v], share_of(backward)) : 0;
}

int64_t PlannedActivations::parameter_gradient_bytes(uint32_t b) const {
  int64_t bytes = 0;
  for (const uint32_t p : graph_.blocks[b].parameters) {
    bytes += gradient_bytes_[p];
  }
  return bytes;
}

int64_t PlannedActivations::working_bytes(const Instruction& backward) const {
  const uint32_t b = backward.block;
  const BlockCost& cost = subject_.costs[b];
  const bool is_tiled = backward.has(kInTiles) && choice_.block_tile_share.has_value();
  if (!backward.has(kInChunk) && !is_tiled) {
    return cost.working_bytes + cost.product_bytes;
  }
  const int64_t results = std::min(cost.working_bytes, parameter_gradient_bytes(b));
  const int64_t rest = cost.working_bytes - results;
  const int64_t kept = results + cost.product_bytes;  // not less for fewer positions
  if (backward.has(kInChunk)) {
    return kept + part_of(rest, chunk_share_);
  }
  const double share = *choice_.block_tile_share;
  int64_t whole = 0;  // gradients of inputs, assembled from tiles
  for (const uint32_t v : graph_.blocks[b].inputs) {
    whole += share < 1 && facts_.has_gradient(v) ? value_bytes_[v] : 0;
  }
  return kept + whole + part_of(cost.saved_bytes + cost.output_bytes + rest, share);
}

}  // namespace tenon
