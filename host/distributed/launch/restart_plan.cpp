// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/launch/restart_plan.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tenon {

RestartPlan::RestartPlan(const RestartLimits& limits, std::function<bool(uint32_t)> can_train_on)
    : limits_(limits), can_train_on_(std::move(can_train_on)), sound_(limits.num_ranks) {
  std::iota(sound_.begin(), sound_.end(), 0U);
  slots_ = sound_;
}

bool RestartPlan::restart(const FailedStart& failed) {
  excluded_.reset();
  if (num_restarts_ == limits_.max_restarts) {
    return false;
  }
  const std::optional<uint32_t> blamed =
      failed.rank.has_value() ? std::optional(slots_[*failed.rank]) : std::nullopt;
  const bool is_again = blamed.has_value() && blamed == blamed_;
  blamed_ = blamed;
  if (is_again && failed.is_before_first_step && limits_.min_ranks > 0) {
    leave_out(*blamed);
  }
  if (failed.is_for_good && !excluded_.has_value()) {
    return false;
  }
  ++num_restarts_;
  return true;
}

// If no number of ranks would work without the slot, nothing is excluded, and all are tried again.
void RestartPlan::leave_out(uint32_t slot) {
  std::vector<uint32_t> sound = sound_;
  std::erase(sound, slot);
  for (size_t size = std::min(sound.size(), slots_.size()); size >= limits_.min_ranks; --size) {
    if (can_train_on_(static_cast<uint32_t>(size))) {
      sound_ = std::move(sound);
      slots_.assign(sound_.begin(), sound_.begin() + static_cast<std::ptrdiff_t>(size));
      excluded_ = slot;
      blamed_.reset();
      return;
    }
  }
}

}  // namespace tenon
