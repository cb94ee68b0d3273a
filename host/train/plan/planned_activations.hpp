// SPDX-License-Identifier: Apache-2.0
//
// Bytes of values, of what blocks keep for backward, and of what leaves memory between forward and
// backward, as a choice of recompute, tiles and offload has them. Follows model_runner.hpp.
#pragma once

#include "host/model/graph_facts.hpp"
#include "host/train/plan/plan_subject.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace tenon {

class PlannedActivations {
 public:
  // The tails of `facts`, or the last block, run in chunks if the subject has chunks. `grad_bytes`
  // is by parameter. All references outlive this object.
  PlannedActivations(const PlanSubject& subject,
                     const PlanChoice& choice,
                     const GraphFacts& facts,
                     const std::vector<int64_t>& grad_bytes);

  bool is_chunked(uint32_t b) const;
  bool is_recomputed(uint32_t b) const;
  bool is_tiled(uint32_t b) const;
  // Whether backward runs the forward of the block again.
  bool is_light(uint32_t b) const { return is_recomputed(b) || is_tiled(b); }

  int64_t value_bytes(uint32_t v) const { return value_bytes_[v]; }
  // Counts the value as 0 bytes from then on. Returns its bytes.
  int64_t forget(uint32_t v) { return std::exchange(value_bytes_[v], 0); }

  int64_t output_bytes(uint32_t b) const;
  // Bytes of the table rows that the block is the first to read. They stay until its backward.
  int64_t row_bytes(uint32_t b) const;
  // Bytes of the outputs of blocks [first, last] that are dropped after forward.
  int64_t dropped_bytes(uint32_t first, uint32_t last) const;
  // Bytes of the outputs that are in memory when the block's backward has ended.
  int64_t held_outputs(uint32_t b) const;
  // Bytes that the block's forward keeps for backward, and bytes that its recompute adds. `flows`:
  // it has a backward.
  int64_t kept_bytes(uint32_t b, bool flows) const;
  int64_t recompute_bytes(uint32_t b, bool flows) const;
  // Second copies of outputs, made by a recompute and freed after the block's backward.
  int64_t second_outputs(uint32_t b) const;
  // Saved for the block's backward, and freed after it.
  int64_t saved_bytes(uint32_t b) const;
  // Results of attention that a selective recompute keeps.
  int64_t attention_bytes(uint32_t b) const;
  // Of the block's parameter gradients, in the dtype that autograd produces.
  int64_t parameter_grad_bytes(uint32_t b) const;
  // Allocated by the block's backward, at its peak.
  int64_t working_bytes(uint32_t b) const;

  // Bytes that leave memory after the forward of the unit that ends with `last`.
  int64_t moved_bytes(uint32_t last) const;
  // Of them, what leaves memory after the unit's backward. From then on, outputs are not held.
  int64_t drop_moved(uint32_t last);
  // The end of the last unit before block `b` that moves anything; the number of blocks if none.
  uint32_t moved_before(uint32_t b) const;

 private:
  void measure_values();
  void find_dropped_values();
  void find_moved_values();
  bool has_dropped(uint32_t b) const;

  const PlanSubject& subject_;
  const ModelGraph& graph_;
  const PlanChoice choice_;
  const GraphFacts& facts_;
  const std::vector<int64_t>& grad_bytes_;
  std::vector<int64_t> value_bytes_;
  std::vector<bool> is_dropped_;              // by value: between forward and backward
  std::vector<bool> is_gone_;                 // by value: brought back and dropped again
  std::vector<std::vector<uint32_t>> moved_;  // by block, the last of its unit
};

}  // namespace tenon
