// SPDX-License-Identifier: Apache-2.0
//
// What ranks decide together: each rank's votes are reduced by MAX, so that a vote of any rank
// counts for all. A step's votes are collected until its first forward, travel while it computes,
// and act at its end; those made later travel with the next step. Invariant: after `settle`, all
// ranks hold the same decision.
// Threads: the train thread alone.
#pragma once

#include "host/distributed/collectives/collective.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tenon {

enum class Vote : size_t {
  kOutOfData,    // no batch is left on this rank after this step: the window ends for all
  kSkipUpdate,   // this step's update is not applied
  kEvaluate,     // evaluate after this step
  kStop,         // end in order, as done
  kInterrupted,  // a signal or the kill switch asks for an early end
  kTimeIsUp,     // the run's length in minutes is reached by this rank's clock
  kCheckpoint,   // the state is saved at the next boundary of the run
  kRollBack,     // a hook reported a loss spike: the run rolls back at the end of a step
  kSaving,       // this rank's share of a checkpoint is still being written
  kSaveFailed,   // a checkpoint could not be saved, and the run is to stop for it
  kMoreData,     // in an evaluation: this rank has another batch
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
  explicit Agreement(Collective& collective) : collective_(collective) {}

  // Adds a vote of this rank to those that travel next.
  void vote(Vote vote) { pending_.set(vote); }
  // The votes of this rank that have not travelled yet.
  const Decision& pending() const { return pending_; }
  // These votes are not made after all.
  void forget() { pending_ = Decision(); }

  // Takes all votes so far on their way, and with them numbers to be added up over ranks: once a
  // step, before its first forward. Each rank gives as many numbers.
  void start(std::span<const double> to_add = {});
  // The decision that `start` began; waits for it where it is still under way.
  // Errors  as Gathering::wait
  const Decision& resolve();
  // The sums of the numbers, in the order of ranks; waits as `settle` does.
  std::span<const double> sums();
  // Both at once: between steps.
  const Decision& resolve_now();

 private:
  Collective& collective_;
  Decision pending_;
  Decision travelling_;
  std::vector<double> sums_;
  std::unique_ptr<Gathering> under_way_;
};

}  // namespace tenon
