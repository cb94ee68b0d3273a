// SPDX-License-Identifier: Apache-2.0
//
// Selects the checkpoints to remove. A pure function; it removes nothing.
// Invariant: the newest checkpoint and pinned checkpoints are always kept.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

struct KeptCheckpoint {
  std::string name;
  int64_t step = 0;
  std::optional<double> metric = std::nullopt;  // of keep_best; null if not measured
  bool is_pinned = false;
  std::string time = {};       // of the save, UTC, as in index.json; "" if unknown
  bool is_order_known = true;  // false: its position in the order of commits has no checksum
};

enum class BestMode { kMin, kMax };

struct RetentionRule {
  int64_t keep_last = 3;         // 0: all
  int64_t keep_every_steps = 0;  // also keep multiples of this step; 0: none
  int64_t keep_best = 0;         // number of best checkpoints to keep
  BestMode best_mode = BestMode::kMin;
};

// Returns the names of checkpoints that no part of the rule keeps, oldest first. `kept` is in the
// order of commits. A checkpoint with a NaN metric is never among the best; among equal metrics,
// the newer checkpoint wins. If a position in the order is not known, a checkpoint is removed only
// if the order by time and step selects it too: one flipped bit then removes no newer checkpoint.
std::vector<std::string> checkpoints_to_remove(std::span<const KeptCheckpoint> kept,
                                               const RetentionRule& rule);

// Sorts by time and step if a position in the order of commits is not known.
void sort_unknown_order(std::vector<KeptCheckpoint>& kept);

}  // namespace tenon
