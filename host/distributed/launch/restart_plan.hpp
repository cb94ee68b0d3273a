// SPDX-License-Identifier: Apache-2.0
//
// Which ranks --launch starts again when a run has failed: the same ones, or fewer, where one is
// not to be had any more (docs/decisions/0038-fewer-ranks.md). A decision alone: nothing is
// started or looked at here.
// A slot is the place of a rank on this machine, with its processors and its GPU, from 0 on. At
// first ranks and slots have the same numbers.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace tenon {

struct RestartLimits {
  uint32_t num_ranks = 1;  // at first
  uint32_t max_restarts = 0;
  uint32_t min_ranks = 0;  // that may continue; 0: all
};

// What became of the ranks that were started last.
struct FailedStart {
  std::optional<uint32_t> rank = {};  // that the run failed of, where one can be named
  bool is_before_first_step = false;  // of those that this start would have made
  bool is_for_good = false;           // the same ranks would fail again: the recipe, a plugin
};

class RestartPlan {
 public:
  // `can_train_on` says whether the recipe can be trained on that number of ranks.
  RestartPlan(const RestartLimits& limits, std::function<bool(uint32_t)> can_train_on);

  // Of the ranks to start now, by rank; in order.
  const std::vector<uint32_t>& slots() const { return slots_; }
  uint32_t num_restarts() const { return num_restarts_; }

  // True if ranks are to be started again. A slot is excluded from then on whose rank failed
  // before its first step, and was what the start before failed of, too.
  bool restart(const FailedStart& failed);
  // By the last `restart`.
  std::optional<uint32_t> excluded() const { return excluded_; }

 private:
  void leave_out(uint32_t slot);

  const RestartLimits limits_;
  const std::function<bool(uint32_t)> can_train_on_;
  std::vector<uint32_t> sound_;  // slots that were not excluded
  std::vector<uint32_t> slots_;  // the first ones of them
  uint32_t num_restarts_ = 0;
  std::optional<uint32_t> blamed_;  // the slot of the last failure
  std::optional<uint32_t> excluded_;
};

}  // namespace tenon
