// SPDX-License-Identifier: Apache-2.0
//
// Which checkpoints may go. A pure function: it removes nothing.
// Invariant: the newest one, and one that is pinned, always stay.
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
  std::optional<double> metric = std::nullopt;  // of keep_best; none where none was measured
  bool is_pinned = false;
};

enum class BestMode { kMin, kMax };

struct RetentionRule {
  int64_t keep_last = 3;         // 0: all
  int64_t keep_every_steps = 0;  // those whose step is a multiple stay for good; 0: none
  int64_t keep_best = 0;         // how many of the best by the metric
  BestMode best_mode = BestMode::kMin;
};

// The names of those that no part of the rule keeps, oldest first. `kept` is in the order of
// commits. A metric that is not a number is never among the best; of equal ones the newer is.
std::vector<std::string> checkpoints_to_remove(std::span<const KeptCheckpoint> kept,
                                               const RetentionRule& rule);

}  // namespace tenon
