// SPDX-License-Identifier: Apache-2.0
#include "host/train/loop_requests.hpp"

#include <tenon/hook.h>

#include "host/error/error.hpp"
#include "host/tensor/state/saved_number.hpp"
#include "host/text/formatted.hpp"

#include <cstdlib>

namespace tenon {
namespace {

LoopRequests::Possible possible_in(const RunServices& run) {
  const Checkpointing* const checkpoints = run.data.checkpoints.get();
  return {
      .skip_update = !run.recipe().train.update_in_backward,
      .evaluate = !run.data.eval_sets.empty(),
      .checkpoint = checkpoints != nullptr,
      .roll_back = checkpoints != nullptr && checkpoints->recipe().on_spike == OnSpike::kRollBack};
}

}  // namespace

LoopRequests::LoopRequests(RunServices& run, const RunState& state, StopConditions& stop)
    : LoopRequests(run.ranks.groups.all(), state, stop, possible_in(run)) {}

void LoopRequests::request(uint32_t requests, const std::string& reason) {
  constexpr uint32_t kKnown = TENON_REQUEST_SKIP_UPDATE | TENON_REQUEST_EVALUATE |
                              TENON_REQUEST_STOP | TENON_REQUEST_CHECKPOINT |
                              TENON_REQUEST_ROLL_BACK;
  if ((requests & ~kKnown) != 0) {
    throw Error("hook.bad_request",
                "unknown request; this release can skip an update, evaluate, save a checkpoint, "
                "stop and roll back");
  }
  if ((requests & TENON_REQUEST_SKIP_UPDATE) != 0 && !possible_.skip_update) {
    throw Error("hook.bad_request",
                "a skipped update is requested, but updates run in the backward; remove "
                "/train/update_in_backward");
  }
  if ((requests & TENON_REQUEST_CHECKPOINT) != 0 && !possible_.checkpoint) {
    throw Error("hook.bad_request",
                "a checkpoint is requested, but the recipe saves none; add a section /checkpoint");
  }
  if ((requests & TENON_REQUEST_EVALUATE) != 0 && !possible_.evaluate) {
    throw Error("hook.bad_request",
                "an evaluation is requested, but the recipe has no dataset for it; add one at "
                "/data/eval");
  }
  if ((requests & TENON_REQUEST_SKIP_UPDATE) != 0) {
    votes_.vote(Vote::kSkipUpdate);
  }
  if ((requests & TENON_REQUEST_EVALUATE) != 0) {
    votes_.vote(Vote::kEvaluate);
  }
  if ((requests & TENON_REQUEST_CHECKPOINT) != 0) {
    votes_.vote(Vote::kCheckpoint);
  }
  if ((requests & TENON_REQUEST_STOP) != 0) {
    votes_.vote(Vote::kStop);
    stop_.note_stop_request(reason);
  }
  if ((requests & TENON_REQUEST_ROLL_BACK) != 0) {
    request_roll_back(state_.step, reason);
  }
}

void LoopRequests::request_roll_back(uint64_t first_bad_step, const std::string& reason) {
  if (!possible_.roll_back) {
    throw Error("hook.bad_request",
                "a roll-back is requested, but the recipe does not allow it; set "
                "\"on_spike\": \"roll_back\" in /checkpoint");
  }
  if (first_bad_step == 0 || first_bad_step > state_.step) {
    throw Error("hook.bad_request",
                formatted("the run cannot roll back to before step {}: it is at step {}",
                          first_bad_step,
                          state_.step));
  }
  if (!own_spike_.has_value() || first_bad_step < own_spike_->first_bad_step) {
    own_spike_ = LossSpike{first_bad_step, reason};
  }
  votes_.vote(Vote::kRollBack);
}

void LoopRequests::sync() {
  stop_.vote(votes_);
  const Decision decision = votes_.resolve_now();
  if (decision.has(Vote::kSkipUpdate)) {
    votes_.vote(Vote::kSkipUpdate);  // applies to the next step
  }
  if (decision.has(Vote::kRollBack)) {
    votes_.vote(Vote::kRollBack);  // takes effect at the end of a step
  }
  stop_.act_on(decision);
  act_on(decision);
  if (decision.has(Vote::kEvaluate) && evaluate_) {
    evaluate_();
  }
}

void LoopRequests::act_on(const Decision& decision) {
  is_checkpoint_due_ = is_checkpoint_due_ || decision.has(Vote::kCheckpoint);
}

std::optional<LossSpike> LoopRequests::take_spike(const Decision& decision) {
  if (!decision.has(Vote::kRollBack)) {
    return std::nullopt;
  }
  const std::optional<LossSpike> mine = std::exchange(own_spike_, std::nullopt);
  const auto all = ranks_.gather_texts(
      mine.has_value() ? formatted("{} {}", mine->first_bad_step, mine->why) : "",
      "reason to go back");
  std::optional<LossSpike> earliest;
  for (const std::string& text : all) {
    if (text.empty()) {
      continue;
    }
    const uint64_t step = std::strtoull(text.c_str(), nullptr, 10);
    if (!earliest.has_value() || step < earliest->first_bad_step) {
      const std::string why = text.substr(text.find(' ') + 1);
      earliest = LossSpike{step, why.empty() ? "a hook requested it" : why};
    }
  }
  return earliest;
}

void LoopRequests::resume() {
  for (const auto& [vote, name] : kSaved) {
    if (loaded_.has(vote)) {
      votes_.vote(vote);
    }
  }
  loaded_ = {};
}

void LoopRequests::load_vote(Vote vote, bool is_pending) {
  if (is_pending) {
    loaded_.set(vote);
  }
}

void LoopRequests::put_spike(StateTree& tree, const std::string& at) const {
  if (own_spike_.has_value()) {
    tree.put_int(state_path(at, "step"),
                 static_cast<int64_t>(own_spike_->first_bad_step),
                 TENON_STATE_PER_RANK);
    tree.put_bytes(state_path(at, "why"), own_spike_->why, TENON_STATE_PER_RANK);
  }
}

// If the recipe of the resumed run does not allow rollbacks, drops a saved request for one.
void LoopRequests::get_spike(const StateTree& tree, const std::string& at) {
  own_spike_.reset();
  if (possible_.roll_back && tree.find(state_path(at, "step")) != nullptr) {
    own_spike_ =
        LossSpike{saved_count(tree, state_path(at, "step")), tree.get_bytes(state_path(at, "why"))};
  }
}

}  // namespace tenon
