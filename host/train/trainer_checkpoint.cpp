// SPDX-License-Identifier: Apache-2.0
//
// Where the loop meets checkpoints: what is due where it is at rest, and what has come of it.
#include "host/train/checkpointing.hpp"
#include "host/train/run_snapshot.hpp"
#include "host/train/trainer.hpp"

#include <algorithm>
#include <utility>

namespace tenon {

void Trainer::rest(RestPoint point) {
  if (parts_.at_rest != nullptr && point != RestPoint::kStart) {
    parts_.at_rest(point, *this);
  }
  save_where_due(point);
}

// Nothing has changed since the run was at rest, but for what ends it.
void Trainer::rest_at_end() {
  save_where_due(parts_.train_data.has_window() ? RestPoint::kStep : RestPoint::kWindow);
}

void Trainer::save_where_due(RestPoint point) {
  if (parts_.checkpoints == nullptr) {
    return;
  }
  Checkpointing& checkpoints = *parts_.checkpoints;
  prepare_saves();
  const bool is_asked = std::exchange(is_checkpoint_asked_, false);
  const bool ends = is_over() && (outcome_.code == ExitCode::kStopped && is_cut_by_signal_
                                      ? checkpoints.recipe().on_signal
                                      : checkpoints.recipe().at_end);
  const bool is_due = checkpoints.is_due(point, state_) || is_asked || ends;
  save_forms(point,
             {.is_full = is_due && !checkpoints.is_saved(state_),
              .exports = checkpoints.exports_due(point, state_)});
}

// What a run was to export where it was saved, and did not come to.
void Trainer::make_up_exports() {
  if (parts_.checkpoints == nullptr || parts_.saved == nullptr) {
    return;
  }
  const std::string& at = parts_.saved->reader().index().facts.at;
  for (const RestPoint point : {RestPoint::kStep, RestPoint::kWindow, RestPoint::kEpoch}) {
    if (at == rest_name(point)) {
      save_forms(point, {.exports = parts_.checkpoints->exports_missing(point, state_)});
    }
  }
}

// What the run has ended with: the parameters of the best evaluation, where those are kept.
void Trainer::export_at_end() {
  if (parts_.checkpoints == nullptr) {
    return;
  }
  const bool is_changed = outcome_.best.has_value() && outcome_.best->step != state_.step;
  save_forms(RestPoint::kStep,
             {.exports = parts_.checkpoints->exports_at_end(
                  state_, state_.step != first_step_ || first_step_ == 0, is_changed)});
}

// Once, when there has been a step: what an optimizer keeps is there then.
void Trainer::prepare_saves() {
  if (is_saving_prepared_ || state_.step == 0 ||
      parts_.checkpoints->recipe().staging == CheckpointStaging::kStream) {
    return;
  }
  is_saving_prepared_ = true;
  StateTree tree(StateTree::Copies::kNone);
  parts_.parameters.snapshot(tree, run_state::kParameters);
  parts_.optimizer.snapshot(tree, run_state::kOptimizer);
  parts_.checkpoints->prepare(tree);
}

// The first one that is sound on all ranks.
void Trainer::load_sound(SavedStates& saved,
                         const std::function<void(const StateTree& tree)>& take) {
  for (;;) {
    const StateTree& tree = saved.next();
    std::optional<Error> damage;
    try {
      take(tree);
    } catch (const Error& error) {
      if (!is_damage(error)) {
        throw;
      }
      damage = error;
    }
    if (!any_rank(damage.has_value())) {
      return;
    }
    saved.reject(damage);
  }
}

void Trainer::load_saved() {
  bool is_bank_due = true;
  load_sound(*parts_.saved, [&](const StateTree& tree) {
    // What is not saved begins as the run did; all else is loaded over it.
    if (is_bank_due && !parts_.saved->reader().index().facts.left_out.is_empty()) {
      is_bank_due = false;
      load_from_bank();
    }
    load_own(tree);
  });
  finish_load();
  outcome_.resumed_from = parts_.saved->reader().address();
  outcome_.resumed_at = state_.step;
  parts_.progress.say("resumed from " + outcome_.resumed_from + ", after step " +
                      std::to_string(state_.step));
}

void Trainer::save_checkpoint(RestPoint point) {
  save_forms(point, {.is_full = true, .exports = {}});
}

// Exports take parts of the same copy of the state; they alone are no checkpoint to hooks.
void Trainer::save_forms(RestPoint point, const SaveForms& forms) {
  if (!forms.is_full && forms.exports.empty()) {
    return;
  }
  Checkpointing& checkpoints = *parts_.checkpoints;
  finish_saves();
  if (forms.is_full) {
    fire(TENON_EVENT_BEFORE_CHECKPOINT);
  }
  StateTree tree = checkpoints.tree_for(forms);
  if (forms.is_full) {
    snapshot(tree);
  } else {
    snapshot_weights(tree);
  }
  std::map<std::string, double> figures = outcome_.last_metrics;
  if (const auto loss = parts_.metrics.last("loss")) {
    figures["loss"] = *loss;
  }
  checkpoints.save(point, state_, evaluated_step_, std::move(figures), forms, std::move(tree));
  tell_saves();
  if (forms.is_full) {
    fire(TENON_EVENT_AFTER_CHECKPOINT);
    settle_wishes();
  }
}

// Once a step, with what the ranks have agreed on: where all have written their shares, rank 0 goes
// on.
void Trainer::settle_save(const Decision& decision) {
  if (decision.has(Vote::kCheckpoint)) {
    is_checkpoint_asked_ = true;
  }
  if (parts_.checkpoints == nullptr) {
    return;
  }
  if (!decision.has(Vote::kSaving)) {
    parts_.checkpoints->conclude();
  }
  tell_saves();
  if (decision.has(Vote::kSaveFailed)) {
    stop_for_failed_save();
  }
}

// What this rank knows of saves, on its way with the other votes of a step.
void Trainer::vote_on_saves() {
  if (parts_.signals != nullptr && parts_.signals->take_save_request()) {
    agreement_.vote(Vote::kCheckpoint);
  }
  if (parts_.checkpoints == nullptr) {
    return;
  }
  const Checkpointing& checkpoints = *parts_.checkpoints;
  if (checkpoints.is_writing()) {
    agreement_.vote(Vote::kSaving);
  }
  if (parts_.collective.rank() == 0 && checkpoints.is_clock_due()) {
    agreement_.vote(Vote::kCheckpoint);
  }
  if (checkpoints.failure().has_value()) {
    agreement_.vote(Vote::kSaveFailed);
  }
}

void Trainer::tell_saves() {
  for (const std::string& line : parts_.checkpoints->take_lines()) {
    parts_.progress.say(line);
  }
}

// Of all saves that a signal is still to wait for together; none without a signal.
std::optional<std::chrono::duration<double>> Trainer::grace_left() {
  using Clock = std::chrono::steady_clock;
  if (!is_cut_by_signal_) {
    return std::nullopt;
  }
  if (!grace_until_.has_value()) {
    grace_until_ = Clock::now() +
                   std::chrono::duration_cast<Clock::duration>(
                       std::chrono::duration<double>(parts_.checkpoints->recipe().grace_seconds));
  }
  return std::max<std::chrono::duration<double>>(*grace_until_ - Clock::now(),
                                                 std::chrono::duration<double>(0));
}

void Trainer::finish_saves() {
  if (parts_.checkpoints == nullptr) {
    return;
  }
  const auto failure = parts_.checkpoints->finish([this] { return grace_left(); });
  tell_saves();
  if (failure.has_value() && parts_.checkpoints->recipe().on_failure == OnSaveFailure::kStop) {
    stop_for_failed_save();
  }
}

std::optional<Error> Trainer::finish_all_saves() {
  auto failure =
      parts_.checkpoints->finish([] { return std::optional<std::chrono::duration<double>>(); });
  tell_saves();
  return failure;
}

void Trainer::save_seed() {
  if (is_over()) {
    return;
  }
  save_checkpoint(RestPoint::kStart);
  if (finish_all_saves().has_value()) {
    stop_for_failed_save();
  }
  end_with(ExitCode::kDone, "saved the first parameters");
}

void Trainer::stop_for_failed_save() {
  const auto& failure = parts_.checkpoints->failure();
  const std::string reason = first_text(failure.has_value() ? failure->message() : "");
  throw Error("checkpoint.failed", reason.empty() ? "a checkpoint could not be saved" : reason);
}

}  // namespace tenon
