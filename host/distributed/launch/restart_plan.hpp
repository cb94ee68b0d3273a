// SPDX-License-Identifier: Apache-2.0
//
// Decides which ranks --launch restarts after a run has failed: the same ranks, or fewer if a rank
// is no longer available (docs/decisions/0038-fewer-ranks.md). It only decides: it neither starts
// nor checks anything. A slot is the place of a rank on this machine, with its processors and its
// GPU, numbered from 0. At first, ranks and slots have the same numbers.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace tenon {

struct RestartLimits {
  uint32_t num_ranks = 1;  // of the first start
  uint32_t max_restarts = 0;
  uint32_t min_ranks = 0;  // with which the run may continue; 0: all
};

// How the last start failed.
struct FailedStart {
  std::optional<uint32_t> rank = {};  // that failed, if one can be named
  bool is_before_first_step = false;  // this start reached no step
  bool is_for_good = false;           // the same ranks would fail again: bad recipe or plugin
};

class RestartPlan {
 public:
  // `can_train_on` returns whether the recipe can be trained on that number of ranks.
  RestartPlan(const RestartLimits& limits, std::function<bool(uint32_t)> can_train_on);

  // Returns the slots of the ranks to start now, by rank; in ascending order.
  const std::vector<uint32_t>& slots() const { return slots_; }
  uint32_t num_restarts() const { return num_restarts_; }

  // Returns true if ranks must be restarted. If `min_ranks` allows it, excludes a slot from then
  // on whose rank failed before its first step, and also caused the failure of the previous start.
  bool restart(const FailedStart& failed);
  // Returns the slot that the last `restart` excluded.
  std::optional<uint32_t> excluded() const { return excluded_; }

 private:
  void leave_out(uint32_t slot);

  const RestartLimits limits_;
  const std::function<bool(uint32_t)> can_train_on_;
  std::vector<uint32_t> sound_;  // slots that were not excluded
  std::vector<uint32_t> slots_;  // the first slots of sound_
  uint32_t num_restarts_ = 0;
  std::optional<uint32_t> blamed_;  // the slot of the last failure
  std::optional<uint32_t> excluded_;
};

}  // namespace tenon
