// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/longest_plan.hpp"

#include "host/error/error.hpp"

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

constexpr int64_t kMostPositions = int64_t{1} << 30;
constexpr int64_t kUsualTile = 1024;

}  // namespace

std::vector<LongestSettings> settings_to_try(const LongestOptions& options) {
  std::vector<LongestSettings> all = {options.given};
  const auto add = [&all](const LongestSettings& settings) {
    if (std::ranges::find(all, settings) == all.end()) {
      all.push_back(settings);
    }
  };
  LongestSettings next = options.given;
  if (options.can_chunk) {
    next.loss_chunk = next.loss_chunk.value_or(kUsualTile);
    add(next);
  }
  std::vector<std::string> recomputes;
  if (options.can_keep_attention) {
    recomputes.emplace_back("selective");
  }
  recomputes.emplace_back("blocks");
  const std::optional<int64_t> tile =
      options.can_tile ? std::optional(options.given.tile.value_or(kUsualTile)) : std::nullopt;
  for (const std::string& recompute : recomputes) {
    next.recompute = recompute;
    add(next);
  }
  for (const std::string& offload : {std::string(), std::string("host"), std::string("disk")}) {
    if (offload == "host" && !options.has_host) {
      continue;
    }
    for (const std::string& recompute : recomputes) {
      next.recompute = recompute;
      next.tile = tile;
      next.offload_activations = offload;
      add(next);
    }
  }
  return all;
}

std::vector<LongestPlan> longest_plans(
    const std::vector<LongestSettings>& settings,
    const std::function<RankPlan(int64_t positions, const LongestSettings& settings)>& plan_at,
    int64_t memory) {
  std::vector<LongestPlan> result;
  for (const LongestSettings& one : settings) {
    LongestPlan best{.settings = one, .positions = 0, .plan = std::nullopt};
    const auto fits = [&](int64_t positions) {
      try {
        RankPlan plan = plan_at(positions, one);
        if (plan.memory.sum() > memory) {
          return false;
        }
        best.positions = positions;
        best.plan = std::move(plan);
        return true;
      } catch (const Error& error) {
        if (error.id() == "recipe.out_of_range") {  // larger than any memory
          return false;
        }
        throw;
      }
    };
    int64_t most = kLongestStep;
    while (most < kMostPositions && fits(most)) {
      most *= 2;
    }
    int64_t low = best.positions / kLongestStep;  // fits
    int64_t high = most / kLongestStep;           // does not
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      (fits(middle * kLongestStep) ? low : high) = middle;
    }
    result.push_back(std::move(best));
  }
  return result;
}

}  // namespace tenon
