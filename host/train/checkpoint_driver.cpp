// SPDX-License-Identifier: Apache-2.0
#include "host/train/checkpoint_driver.hpp"

#include "host/error/error.hpp"
#include "host/text/formatted.hpp"
#include "host/train/rank_decisions.hpp"
#include "host/train/run_state/run_state_names.hpp"

#include <algorithm>

namespace tenon {

CheckpointDriver::CheckpointDriver(RunServices& run,
                                   const RunState& state,
                                   WholeState& whole,
                                   LoopEvents& events,
                                   LoopRequests& requests,
                                   StopConditions& stop,
                                   const Evaluator& evaluator)
    : run_(run),
      state_(state),
      whole_(whole),
      events_(events),
      requests_(requests),
      stop_(stop),
      evaluator_(evaluator) {}

void CheckpointDriver::save_if_due(RunBoundary boundary) {
  if (!is_on()) {
    return;
  }
  const Checkpointing& checkpoints = *run_.data.checkpoints;
  const StopConditions& stop = stop_;
  prepare();
  const bool is_requested = requests_.take_checkpoint();
  const bool is_cut = stop.code() == ExitCode::kStopped && stop.is_interrupted_run();
  const bool ends =
      stop.is_over() && (is_cut ? checkpoints.recipe().on_signal : checkpoints.recipe().at_end);
  const bool is_due = checkpoints.is_due(boundary, state_) || is_requested || ends;
  // A hook may end the run after the checkpoint of this boundary: without another one, the same
  // command would train on.
  const bool lacks_end = ends && stop.code() == ExitCode::kDone && !is_end_saved_;
  const bool is_full = is_due && (!checkpoints.is_saved(state_) || lacks_end);
  if (stop.complete() ==
      StopConditions::Complete::kNothingNew) {  // the parameters are those of the loaded checkpoint
    const bool has_changed =
        is_full && (is_requested || any_rank(run_.ranks.groups.all(), whole_.has_new_position()));
    save_forms(boundary, {.is_full = has_changed, .exports = {}});
    return;
  }
  save_forms(boundary, {.is_full = is_full, .exports = checkpoints.exports_due(boundary, state_)});
}

void CheckpointDriver::save(RunBoundary boundary) {
  if (is_on()) {
    save_forms(boundary, {.is_full = true, .exports = {}});
  }
}

void CheckpointDriver::save_before_failure(bool is_changed) {
  const bool has_trained = state_.step > stop_.first_step();
  if (is_on() && !is_changed && has_trained && !run_.data.checkpoints->is_saved(state_)) {
    save(RunBoundary::kStep);
  }
  finish_all();
}

void CheckpointDriver::export_missed(const std::string& at) {
  if (!is_on()) {
    return;
  }
  for (const RunBoundary boundary :
       {RunBoundary::kStep, RunBoundary::kWindow, RunBoundary::kEpoch}) {
    if (at == boundary_name(boundary)) {
      save_forms(boundary, {.exports = run_.data.checkpoints->exports_missing(boundary, state_)});
    }
  }
}

void CheckpointDriver::export_at_end(bool is_changed) {
  if (!is_on()) {
    return;
  }
  const uint64_t first_step = stop_.first_step();
  const bool has_moved = state_.step != first_step || first_step == 0;
  save_forms(RunBoundary::kStep,
             {.exports = run_.data.checkpoints->exports_at_end(state_, has_moved, is_changed)});
}

void CheckpointDriver::save_initial() {
  if (!is_on()) {
    return;
  }
  save(RunBoundary::kStart);
  // A save that fails at once is reported before finish_all() could return its failure.
  const bool is_lost = finish_all().has_value() || run_.data.checkpoints->count().lost.has_value();
  if (any_rank(run_.ranks.groups.all(), is_lost)) {
    stop_for_failure();
  }
  stop_.end(ExitCode::kDone, "saved the initial parameters");
}

// Reserves memory once, after the first step, since optimizer state exists from then on.
void CheckpointDriver::prepare() {
  if (is_prepared_ || state_.step == 0 ||
      run_.data.checkpoints->recipe().staging == CheckpointStaging::kStream) {
    return;
  }
  is_prepared_ = true;
  StateTree tree(StateTree::Copies::kNone);
  run_.model.parameters.snapshot(tree, run_state::kParameters);
  run_.model.optimizer.snapshot(tree, run_state::kOptimizer);
  run_.data.checkpoints->prepare(tree);
}

// A checkpoint holds the values of training, exports those of evaluation. If these are the same, a
// checkpoint and its exports share one copy of the state.
void CheckpointDriver::save_forms(RunBoundary boundary, const SaveForms& forms) {
  if (forms.exports.empty() || !run_.model.values.differ()) {
    save_together(boundary, forms);
    return;
  }
  save_together(boundary, {.is_full = forms.is_full, .exports = {}});
  run_.model.values.during(
      state_.step, [&] { save_together(boundary, {.is_full = false, .exports = forms.exports}); });
}

// Exports without a checkpoint fire no events.
void CheckpointDriver::save_together(RunBoundary boundary, const SaveForms& forms) {
  if (!forms.is_full && forms.exports.empty()) {
    return;
  }
  finish();
  check_folder();
  if (forms.is_full) {
    events_.fire(TENON_EVENT_BEFORE_CHECKPOINT);
  }
  StateTree tree = run_.data.checkpoints->tree_for(forms);
  std::optional<JournalNumber> taken;
  if (forms.is_full) {
    is_end_saved_ = stop_.is_over() && stop_.code() == ExitCode::kDone;
    taken = run_.report.journal.add(CheckpointTaken{boundary_name(boundary)});
    whole_.snapshot(tree);
  } else {
    whole_.snapshot_weights(tree);
  }
  std::map<std::string, double> metrics = evaluator_.last_metrics();
  if (const auto loss = run_.report.metrics.last("loss")) {
    metrics["loss"] = *loss;
  }
  run_.data.checkpoints->save({.at = boundary,
                               .state = state_,
                               .evaluated_step = evaluator_.evaluated_step(),
                               .metrics = std::move(metrics),
                               .taken = taken},
                              forms,
                              std::move(tree));
  report();
  if (forms.is_full) {
    events_.fire(TENON_EVENT_AFTER_CHECKPOINT);
    requests_.sync();
  }
}

// Two runs in one folder would resume from each other's checkpoints.
void CheckpointDriver::check_folder() {
  const std::string problem =
      first_text(run_.ranks.groups.all(), run_.ranks.owner.folder_problem());
  if (!problem.empty()) {
    throw Error("run.dir_lost",
                formatted("{}; nothing is saved there any more, and the run stops at step {}",
                          problem,
                          state_.step));
  }
}

void CheckpointDriver::vote(Agreement& votes) {
  if (run_.ranks.signals != nullptr && run_.ranks.signals->take_save_request()) {
    run_.report.journal.add(CommandReceived{"checkpoint", "SIGUSR1"});
    votes.vote(Vote::kCheckpoint);
  }
  if (!is_on()) {
    return;
  }
  const Checkpointing& checkpoints = *run_.data.checkpoints;
  if (checkpoints.is_writing()) {
    votes.vote(Vote::kSaving);
  }
  if (run_.role().is_first() && checkpoints.is_clock_due()) {
    votes.vote(Vote::kCheckpoint);
  }
  if (checkpoints.failure().has_value()) {
    votes.vote(Vote::kSaveFailed);
  }
}

void CheckpointDriver::sync(const Decision& decision) {
  requests_.act_on(decision);
  if (!is_on()) {
    return;
  }
  if (!decision.has(Vote::kSaving)) {
    run_.data.checkpoints->conclude();
  }
  report();
  if (decision.has(Vote::kSaveFailed)) {
    stop_for_failure();
  }
}

void CheckpointDriver::report() {
  for (const EndedSave& save : run_.data.checkpoints->take_ended()) {
    const SaveResult& result = save.result;
    run_.report.journal.add(
        SaveEnded{.form = save.form,
                  .address = result.address,
                  .step = result.step,
                  .bytes = result.bytes,
                  .seconds = result.seconds,
                  .error = result.error.has_value() ? result.error->what() : std::string_view(),
                  .taken = save.taken});
  }
}

// Returns the rest of the grace period, which all saves share; none before an interruption.
std::optional<std::chrono::duration<double>> CheckpointDriver::grace_left() {
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  if (!stop_.is_interrupted_run()) {
    return std::nullopt;
  }
  if (!grace_until_.has_value()) {
    grace_until_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      Seconds(run_.data.checkpoints->recipe().grace_seconds));
  }
  return std::max<Seconds>(*grace_until_ - Clock::now(), Seconds(0));
}

void CheckpointDriver::finish() {
  if (!is_on()) {
    return;
  }
  const auto failure = run_.data.checkpoints->finish([this] { return grace_left(); });
  report();
  if (failure.has_value() && run_.data.checkpoints->recipe().on_failure == OnSaveFailure::kStop) {
    stop_for_failure();
  }
}

void CheckpointDriver::check_last() const {
  if (!is_on()) {
    return;
  }
  const SaveCount& saves = run_.data.checkpoints->count();
  const std::optional<SaveCount> exports = run_.data.checkpoints->export_count();
  std::string lost;
  for (const SaveCount& count : {saves, exports.value_or(SaveCount())}) {
    if (lost.empty() && count.lost.has_value() && !count.lost->is_cut_off) {
      lost = count.lost->why;
    }
  }
  if (!lost.empty()) {
    lost += saves.last.empty() ? "; this run has committed no checkpoint"
                               : "; the newest committed checkpoint is " + saves.last;
  }
  lost = first_text(run_.ranks.groups.all(), lost);
  if (!lost.empty()) {
    throw Error("checkpoint.failed",
                formatted("the run ended at step {} ({}), but {}; fix the cause, then resume with "
                          "the same command",
                          state_.step,
                          stop_.reason(),
                          lost));
  }
}

std::optional<Error> CheckpointDriver::finish_all() {
  if (!is_on()) {
    return std::nullopt;
  }
  auto failure =
      run_.data.checkpoints->finish([] { return std::optional<std::chrono::duration<double>>(); });
  report();
  return failure;
}

void CheckpointDriver::add_counts(Outcome& outcome) const {
  if (is_on()) {
    outcome.saves = run_.data.checkpoints->count();
    outcome.exports = run_.data.checkpoints->export_count();
  }
}

void CheckpointDriver::stop_for_failure() {
  const auto& failure = run_.data.checkpoints->failure();
  const std::optional<LostSave>& lost = run_.data.checkpoints->count().lost;
  const std::string own = failure.has_value() ? failure->message()
                          : lost.has_value()  ? lost->why
                                              : "";
  const std::string reason = first_text(run_.ranks.groups.all(), own);
  throw Error("checkpoint.failed", reason.empty() ? "a checkpoint could not be saved" : reason);
}

}  // namespace tenon
