// SPDX-License-Identifier: Apache-2.0
//
// Shared decisions of all ranks: each rank's votes are reduced by MAX, so that a vote of any
// rank counts for all. Votes of a step are collected until its first forward pass, sent while it
// computes, and applied at its end. Later votes are sent with the next step.
// Invariant: after `resolve`, all ranks hold the same decision.
// Threads: the train thread alone.
#pragma once

#include "host/distributed/collectives/group.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tenon {

enum class Vote : size_t {
  kMoreData,     // this rank has another batch; without this vote, the window or evaluation ends
  kSkipUpdate,   // skip this step's update
  kEvaluate,     // evaluate after this step
  kStop,         // end the run normally
  kInterrupted,  // a signal or the kill switch requests an early end
  kTimeIsUp,     // by this rank's clock, the run length in minutes is reached
  kCheckpoint,   // save the state at the next boundary of the run
  kRollBack,     // a hook reported a loss spike: the run rolls back at the end of a step
  kSaving,       // this rank is still writing its part of a checkpoint
  kSaveFailed,   // a checkpoint could not be saved, and the run must stop
  kNumVotes
};

class Decision {
 public:
  bool has(Vote vote) const { return votes_[static_cast<size_t>(vote)] != 0; }
  void set(Vote vote) { votes_[static_cast<size_t>(vote)] = 1; }

 private:
  friend class Agreement;
  std::array<int64_t, static_cast<size_t>(Vote::kNumVotes)> votes_{};
};

class Agreement {
 public:
  explicit Agreement(Group& ranks) : ranks_(ranks) {}

  // Adds a vote of this rank, sent by the next `start`.
  void vote(Vote vote) { pending_.set(vote); }
  // Returns the votes of this rank that have not been sent yet.
  const Decision& pending() const { return pending_; }
  // Discards the votes that have not been sent yet.
  void forget() { pending_ = Decision(); }

  // Starts sending all pending votes, and numbers to sum over ranks. Called once per step, before
  // its first forward pass. All ranks must pass the same number of values.
  void start(std::span<const double> to_add = {});
  // Returns the decision of the last `start`; waits for it if necessary.
  // Errors  as Gathering::wait
  const Decision& resolve();
  // Returns true if a rank has cast this vote; waits as `resolve` does.
  bool has_voted(uint32_t rank, Vote vote);
  // Returns the sums of the numbers, added in rank order; waits as `resolve` does.
  std::span<const double> sums();
  // Calls `start` and `resolve`; for decisions between steps.
  const Decision& resolve_now();

 private:
  Group& ranks_;
  Decision pending_;
  Decision travelling_;
  std::vector<Decision> by_rank_;
  std::vector<double> sums_;
  std::unique_ptr<Gathering> under_way_;
};

}  // namespace tenon
