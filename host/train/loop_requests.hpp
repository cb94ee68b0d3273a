// SPDX-License-Identifier: Apache-2.0
//
// Requests of hooks, and how ranks agree on them. A request is a vote: between steps it takes
// effect at once, in a step at the end of that step. Requests that are pending when the run is
// saved take effect at the same point of the resumed run.
// Invariant: the same requests take effect on all ranks.
// Threads: the train thread.
#pragma once

#include "host/distributed/collectives/agreement.hpp"
#include "host/distributed/collectives/group.hpp"
#include "host/journal/run_state.hpp"
#include "host/train/run_services.hpp"
#include "host/train/state_fields.hpp"
#include "host/train/stop_conditions.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace tenon {

// A hook's report that training went wrong: the run rolls back to before this step.
struct LossSpike {
  uint64_t first_bad_step = 0;
  std::string why;
};

class LoopRequests final : public WithStateFields<LoopRequests> {
 public:
  // Requests that the recipe allows.
  struct Possible {
    bool skip_update = true;
    bool evaluate = false;
    bool checkpoint = false;
    bool roll_back = false;
  };
  // All are borrowed.
  LoopRequests(RunServices& run, const RunState& state, StopConditions& stop);
  LoopRequests(Group& ranks, const RunState& state, StopConditions& stop, Possible possible)
      : ranks_(ranks), state_(state), stop_(stop), possible_(possible), votes_(ranks) {}

  // Sets the function that is called when ranks have agreed, between steps, to evaluate.
  void on_evaluate(std::function<void()> evaluate) { evaluate_ = std::move(evaluate); }

  // Votes of a step: collected until its first forward, and exchanged while it runs.
  Agreement& votes() { return votes_; }

  // `requests` are TENON_REQUEST_* bits.
  // Errors  hook.bad_request for a request that the recipe does not allow, or that is unknown
  void request(uint32_t requests, const std::string& reason);
  // Errors  hook.bad_request if the run cannot roll back, or cannot roll back to before this step
  void request_roll_back(uint64_t first_bad_step, const std::string& reason);

  // Applies all pending requests now. Called by every rank, between steps.
  void sync();
  // Records a request for a checkpoint from a decision.
  void act_on(const Decision& decision);
  // Returns true once if a checkpoint was requested, for the next boundary.
  bool take_checkpoint() { return std::exchange(is_checkpoint_due_, false); }
  // If the step's decision is to roll back, returns the report with the earliest step of all ranks.
  // Called by every rank.
  std::optional<LossSpike> take_spike(const Decision& decision);

  // Repeats the votes that were pending when the loaded state was saved.
  void resume();
  // Withdraws votes of this rank that have not been exchanged.
  void forget() { votes_.forget(); }

  template <class Self, class Fields>
  static void describe(Self& self, Fields& f) {
    if constexpr (Fields::kIsLoading) {
      self.loaded_ = {};
    }
    for (const auto& [vote, name] : kSaved) {
      f.computed(
          name,
          [&] { return self.votes_.pending().has(vote); },
          [&, vote = vote](auto is_pending) { self.load_vote(vote, is_pending); },
          kOwnOfRank);
    }
    f.custom(
        "spike",
        [&](StateTree& tree, const std::string& at) { self.put_spike(tree, at); },
        [&](const auto& tree, const std::string& at) { self.get_spike(tree, at); });
  }

 private:
  // Only requests are saved; other votes hold for one exchange only.
  static constexpr std::pair<Vote, const char*> kSaved[] = {
      {Vote::kSkipUpdate, "wishes/skip_update"},
      {Vote::kEvaluate, "wishes/evaluate"},
      {Vote::kCheckpoint, "wishes/checkpoint"},
      {Vote::kRollBack, "wishes/roll_back"},
      {Vote::kStop, "wishes/stop"}};

  void load_vote(Vote vote, bool is_pending);
  void put_spike(StateTree& tree, const std::string& at) const;
  void get_spike(const StateTree& tree, const std::string& at);

  Group& ranks_;
  const RunState& state_;
  StopConditions& stop_;
  Possible possible_;
  Agreement votes_;
  std::function<void()> evaluate_;
  Decision loaded_;
  bool is_checkpoint_due_ = false;
  std::optional<LossSpike> own_spike_;  // reported by hooks of this rank
};

}  // namespace tenon
