// SPDX-License-Identifier: Apache-2.0
//
// The longest sequence of a step that fits into a rank's memory, for several ways to save memory of
// activations.
// Invariant: for each setting, the result fits, and a sequence that is kLongestStep positions
// longer does not. Threads: any.
#pragma once

#include "host/train/plan/rank_plan.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// Keys of "train".
struct LongestSettings {
  std::optional<int64_t> loss_chunk;
  std::string recompute = "none";  // "none", "blocks", "selective", or "" for the recipe's patterns
  std::optional<int64_t> tile;
  std::string offload_activations;  // "" for null

  bool operator==(const LongestSettings&) const = default;
};

struct LongestPlan {
  LongestSettings settings;
  int64_t positions = 0;         // 0: not even the shortest sequence fits
  std::optional<RankPlan> plan;  // of these positions
};

// What a recipe's model, losses and device allow.
struct LongestOptions {
  LongestSettings given;
  bool can_chunk = false;
  bool can_tile = false;
  bool can_keep_attention = false;
  bool has_host = false;  // devices have memory separate from the host's
};

// Returns settings that save more and more memory, the recipe's first.
std::vector<LongestSettings> settings_to_try(const LongestOptions& options);

// Returns the longest sequence by setting, in multiples of kLongestStep. `plan_at` returns the plan
// of a step with sequences of that length.
inline constexpr int64_t kLongestStep = 64;
std::vector<LongestPlan> longest_plans(
    const std::vector<LongestSettings>& settings,
    const std::function<RankPlan(int64_t positions, const LongestSettings& settings)>& plan_at,
    int64_t memory);

}  // namespace tenon
