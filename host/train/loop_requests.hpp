// SPDX-License-Identifier: Apache-2.0
//
// What hooks request of the run, and how ranks agree on it. A request is a vote: between steps it
// acts at once, in a step at the end of that step. Requests that are pending when the run is saved
// act in the resumed run where they would have.
// Invariant: what acts is the same on all ranks.
// Threads: the train thread.
#pragma once

#include "host/distributed/collectives/agreement.hpp"
#include "host/distributed/collectives/collective.hpp"
#include "host/train/run_state/run_state.hpp"
#include "host/train/state_fields.hpp"
#include "host/train/stop_conditions.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace tenon {

// A hook has seen that training went wrong: the run is to roll back to before this step.
struct LossSpike {
  uint64_t first_bad_step = 0;
  std::string why;
};

class LoopRequests final : public WithStateFields<LoopRequests> {
 public:
  // What the recipe makes possible.
  struct Possible {
    bool evaluate = false;
    bool checkpoint = false;
    bool roll_back = false;
  };
  // All are borrowed.
  LoopRequests(Collective& collective,
               const RunState& state,
               StopConditions& stop,
               Possible possible)
      : collective_(collective),
        state_(state),
        stop_(stop),
        possible_(possible),
        votes_(collective) {}

  // Called whenever ranks have agreed, between steps, to evaluate.
  void on_evaluate(std::function<void()> evaluate) { evaluate_ = std::move(evaluate); }

  // Votes of a step: collected until its first forward, they travel beside it.
  Agreement& votes() { return votes_; }

  // `requests` are TENON_REQUEST_* bits.
  // Errors  hook.bad_request for one that the recipe rules out, or that is unknown
  void request(uint32_t requests, const std::string& reason);
  // Errors  hook.bad_request if the run cannot roll back, or not to before this step
  void request_roll_back(uint64_t first_bad_step, const std::string& reason);

  // Lets everything that was requested act now. Every rank, between steps.
  void sync();
  // Takes over what a step's decision says of checkpoints.
  void act_on(const Decision& decision);
  // True once if a checkpoint was requested, for the next boundary.
  bool take_checkpoint() { return std::exchange(is_checkpoint_due_, false); }
  // The earliest step that hooks of all ranks name, if the step's decision is to roll back. Every
  // rank.
  std::optional<LossSpike> take_spike(const Decision& decision);

  // Votes again for what was pending when the loaded state was saved.
  void resume();
  // Votes of this rank that have not travelled are withdrawn.
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
  // Only what acts in a step is saved; the rest is of a moment.
  static constexpr std::pair<Vote, const char*> kSaved[] = {
      {Vote::kSkipUpdate, "wishes/skip_update"},
      {Vote::kEvaluate, "wishes/evaluate"},
      {Vote::kCheckpoint, "wishes/checkpoint"},
      {Vote::kRollBack, "wishes/roll_back"},
      {Vote::kStop, "wishes/stop"}};

  void load_vote(Vote vote, bool is_pending);
  void put_spike(StateTree& tree, const std::string& at) const;
  void get_spike(const StateTree& tree, const std::string& at);

  Collective& collective_;
  const RunState& state_;
  StopConditions& stop_;
  Possible possible_;
  Agreement votes_;
  std::function<void()> evaluate_;
  Decision loaded_;
  bool is_checkpoint_due_ = false;
  std::optional<LossSpike> own_spike_;  // that hooks of this rank have seen
};

}  // namespace tenon
