// SPDX-License-Identifier: Apache-2.0
//
// Start reading at Trainer::run.
#include "host/train/trainer.hpp"

#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/metrics/metrics_service.hpp"
#include "host/tensor/state/saved_number.hpp"
#include "host/text/formatted.hpp"
#include "host/train/components/run_failure.hpp"
#include "host/train/initial_values.hpp"
#include "host/train/memory_report.hpp"
#include "host/train/named_metrics.hpp"
#include "host/train/rank_decisions.hpp"
#include "host/train/run_state/run_state_names.hpp"

#include <algorithm>
#include <exception>
#include <limits>
#include <optional>
#include <set>
#include <utility>

namespace tenon {
namespace {

// Value of epoch_step after a rollback: the epoch had data, even if none of its steps remains.
constexpr uint64_t kNoStep = std::numeric_limits<uint64_t>::max();

}  // namespace

Trainer::Trainer(RunServices& run)
    : run_(run),
      stop_(run.recipe().train, position_.run, run.ranks.groups.all(), run.ranks.signals),
      requests_(run, position_.run, stop_),
      gradients_(run),
      finite_check_(run, position_.run, gradients_),
      log_(run, position_.run, stop_, finite_check_),
      view_(run, position_.run, gradients_, finite_check_, requests_, log_),
      events_(run, view_),
      feed_(run, stop_, log_),
      step_(run, position_.run, gradients_, finite_check_, events_, view_, log_, requests_),
      evaluator_(run, position_.run, events_, view_, requests_, stop_, log_, step_.forward_pass()),
      whole_(run, finite_check_),
      checkpoints_(run, position_.run, whole_, events_, requests_, stop_, evaluator_),
      roll_back_(run, position_.run, finite_check_, checkpoints_, whole_),
      loader_(run, position_.run) {
  whole_.add({this,
              &stop_,
              &requests_,
              &view_.learning_rate(),
              &finite_check_,
              &log_,
              &feed_,
              &evaluator_,
              &roll_back_});
  requests_.on_evaluate([this] { evaluator_.evaluate(); });
  evaluator_.on_failure([this](bool is_best) { checkpoints_.save_before_failure(is_best); });
}

// ---- the run ----

Outcome Trainer::run() {
  stop_.start_clock();
  const MetricsInUse in_use(run_.report.metrics);
  std::optional<Error> failure;
  try {
    train();
  } catch (const std::exception& error) {
    failure = run_failure(error);
  }
  Outcome outcome;
  outcome.code = stop_.code();
  outcome.reason = stop_.reason();
  if (failure.has_value()) {
    report_failure(*failure, outcome);
  } else if (stop_.complete() >= StopConditions::Complete::kTrained &&
             outcome.code == ExitCode::kDone) {
    outcome.is_already_complete = true;
    outcome.keeps_summary = stop_.complete() == StopConditions::Complete::kFinished;
    outcome.reason = formatted("already complete at step {} ({})", state().step, stop_.reason());
  }
  report_end(failure.has_value(), outcome);
  return outcome;
}

void Trainer::train() {
  initialize();
  load();
  if (run_.plan.imports_only()) {  // the rest takes no time: a signal does not stop it
    checkpoints_.save_initial();
    return;
  }
  stop_.end_on_early_signal();
  if (run_.plan.request.is_eval_only) {
    evaluate_only();
    return;
  }
  if (stop_.complete() == StopConditions::Complete::kFinished) {
    return;
  }
  std::set<std::string> names = evaluation_metrics(
      run_.recipe(), run_.data.all_sets(), run_.model.losses, run_.model.metrics);
  if (!stop_.is_over() && evaluator_.try_sets(names)) {
    check_named_metrics(
        run_.recipe(), names, run_.model.losses, run_.model.metrics, events_.any_in_evaluations());
  }
  log_.restart_clock();
  if (evaluator_.is_due(RunBoundary::kStart) && !stop_.is_over()) {
    evaluator_.evaluate();
  }
  if (run_.data.train.source().info().has_windows) {
    events_.fire(TENON_EVENT_WINDOW_MODE);
  }
  if (!loader_.resumes()) {
    at_boundary(RunBoundary::kStart);
  }
  while (!stop_.is_over()) {
    run_epoch();
  }
  finish_training();
}

void Trainer::initialize() {
  events_.fire(TENON_EVENT_BEFORE_INIT);
  set_initial_values(run_);
  run_.model.sharded.synchronise();
  events_.fire(TENON_EVENT_AFTER_INIT);
  events_.fire(TENON_EVENT_START);
  stop_.start_clock();
  requests_.sync();
}

void Trainer::load() {
  const auto take_position = [this](const StateTree& tree) { this->take_position(tree); };
  if (loader_.resumes() && run_.plan.request.is_eval_only) {
    position_.run = loader_.load_model(run_.plan.request.which);
    events_.event().step = state().step;
    report_restored(StateRestored::How::kModelOnly, loader_.resumed_from());
    fire_and_sync(TENON_EVENT_AFTER_LOAD);
  } else if (loader_.resumes()) {
    loader_.resume([this](const StateTree& tree) { take_over(tree); }, take_position);
    // What the saved run had done counts only for the recipe that it was done with.
    if (!loader_.has_same(kEvaluationKeys)) {
      evaluator_.forget_evaluated();
    }
    stop_.end_if_complete(loader_.has_same(kEndKeys), run_.data.finished_step);
    show_loaded();
    report_restored(StateRestored::How::kResumed, loader_.resumed_from());
    fire_and_sync(TENON_EVENT_AFTER_LOAD);
  } else if (loader_.load_pretrained(take_position)) {
    fire_and_sync(TENON_EVENT_AFTER_LOAD);
  }
  for (const EvalSet& set : run_.data.all_sets()) {
    set.data->check_windows();
  }
  if (!run_.plan.request.is_eval_only && !run_.plan.imports_only()) {
    run_.data.train.check_windows();
    checkpoints_.export_missed(loader_.resumed_boundary());
    evaluator_.evaluate_missed(feed_.last_window());
  }
}

void Trainer::evaluate_only() {
  if (!stop_.is_over()) {
    evaluator_.evaluate();
  }
  if (!stop_.is_over()) {
    evaluator_.evaluate_test_sets();
  }
  stop_.end(ExitCode::kDone,
            "evaluated " + (loader_.resumes() ? loader_.loaded_text() : "the initial parameters"));
}

// Long operations come last, so that an interruption loses nothing.
void Trainer::finish_training() {
  if (!log_.has_logged()) {
    log_.log(roll_back_.records().size());
    if (const auto& failure = finite_check_.guard().failure()) {
      throw Error(*failure);
    }
  }
  checkpoints_.finish();
  if (run_.recipe().train.trains_new_windows() && state().step == stop_.first_step() &&
      (state().step == 0 || state().step == run_.data.finished_step)) {
    return;  // nothing new: an earlier start has evaluated and exported
  }
  if (stop_.code() == ExitCode::kDone) {
    end_in_order(run_.ranks.signals);  // a resumed run may have only its end left
    if (evaluator_.restore_best()) {
      run_.model.sharded.publish();
    }
    const auto best = evaluator_.best();
    checkpoints_.export_at_end(best.has_value() && best->step != state().step);
    if (run_.recipe().eval.at_end) {
      evaluator_.evaluate();
    }
  }
  if (stop_.code() == ExitCode::kDone) {
    evaluator_.evaluate_test_sets();
  }
  checkpoints_.finish();
  checkpoints_.check_last();
}

// ---- an epoch ----

void Trainer::run_epoch() {
  const bool is_resumed = std::exchange(position_.resumes_epoch, false);
  begin_epoch(is_resumed);
  const bool is_finished = run_windows();
  if (!is_finished) {
    save_at_end();  // a hook, a signal or the clock ended the run between steps
  }
  events_.event().window = 0;
  events_.event().window_label = "";
  run_.data.train.close_window();
  if (is_finished) {
    end_epoch(is_resumed);
  }
  fire_and_sync(TENON_EVENT_AFTER_EPOCH);
  if (stop_.is_over() && is_finished) {
    save_at_end();
  }
}

void Trainer::begin_epoch(bool is_resumed) {
  if (!is_resumed) {
    position_.epoch_step = state().step;
  }
  events_.event().epoch = state().epochs;
  fire_and_sync(TENON_EVENT_BEFORE_EPOCH);
  if (!is_resumed) {
    reload_if_due(ReloadPoint::kEpoch, state().epochs);
    feed_.begin_epoch(state().epochs);
  } else if (!position_.resumes_window) {  // between windows, requests take effect at once
    requests_.resume();
    requests_.sync();
  }
}

// Returns false if the run ends before the epoch.
bool Trainer::run_windows() {
  while (!stop_.is_over()) {
    const NextWindow next = position_.resumes_window ? NextWindow::kOpen : feed_.open_next();
    if (next == NextWindow::kEnd && run_.recipe().train.trains_new_windows()) {
      stop_.end_without_new_window(feed_.last_window());
      return false;
    }
    if (next == NextWindow::kEnd) {
      return true;
    }
    if (next == NextWindow::kOpen) {
      events_.event().window = static_cast<uint64_t>(run_.data.train.opened_number());
      run_window();
    } else {
      stop_.end_waiting();
    }
  }
  return false;
}

void Trainer::end_epoch(bool is_resumed) {
  feed_.report_end_of_epoch();
  if (!is_resumed && state().step == position_.epoch_step) {
    feed_.fail_empty_epoch();
  }
  ++position_.run.epochs;
  stop_.check_run_length();
  if (evaluator_.is_due(RunBoundary::kEpoch)) {
    evaluator_.evaluate();
  }
  at_boundary(RunBoundary::kEpoch);
}

// ---- a window ----

void Trainer::run_window() {
  const bool is_resumed = std::exchange(position_.resumes_window, false);
  begin_window(is_resumed);
  const bool is_complete = run_steps();
  if (is_complete) {
    end_window();
  }
  run_.report.journal.add(WindowEnded{
      .label = feed_.last_window(), .window = events_.event().window, .is_complete = is_complete});
  fire_and_sync(TENON_EVENT_AFTER_WINDOW);
}

void Trainer::begin_window(bool is_resumed) {
  events_.event().window_label = feed_.begin_window().c_str();
  run_.report.journal.add(
      WindowBegan{.label = feed_.last_window(), .window = events_.event().window});
  if (!is_resumed) {
    reload_if_due(ReloadPoint::kWindow, state().windows);
  }
  if (evaluator_.evaluate_before_window(is_resumed, feed_.last_window())) {
    run_.model.metrics.begin_window({state().step, 0, true});
    position_.steps_in_window = 0;
  }
  fire_and_sync(TENON_EVENT_BEFORE_WINDOW);
  requests_.resume();
}

// Returns false if a stop condition cuts the window short. The window then does not end, so no
// evaluation or checkpoint of its end is made.
bool Trainer::run_steps() {
  bool has_data = feed_.start_reading();
  if (!has_data && position_.steps_in_window == 0) {
    feed_.report_empty_window();
  }
  while (has_data && !stop_.is_over() && !is_window_full()) {
    reload_if_due(ReloadPoint::kStep, state().step);
    if (stop_.is_over()) {
      break;
    }
    ++position_.steps_in_window;
    has_data = run_step();
  }
  if (!has_data) {
    events_.fire(TENON_EVENT_OUT_OF_DATA);
    feed_.report_end_of_window();
  }
  return !has_data || is_window_full();
}

bool Trainer::is_window_full() const {
  const auto& most = run_.recipe().train.steps_per_window;
  return most.has_value() && position_.steps_in_window >= *most;
}

void Trainer::end_window() {
  ++position_.run.windows;
  stop_.check_run_length();
  if (run_.recipe().eval.with_window == WithWindow::kAfter) {
    evaluator_.evaluate_paired_windows(feed_.last_window());
  }
  if (evaluator_.is_due(RunBoundary::kWindow)) {
    evaluator_.evaluate();
  }
  run_.data.train.close_window();
  at_boundary(RunBoundary::kWindow);
}

// ---- a step ----

// Attempts one update. Returns true if there is data for another step in this window.
bool Trainer::run_step() {
  begin_step();
  std::vector<Microbatch> microbatches = feed_.take_microbatches();
  end_in_order(run_.ranks.signals);
  log_.add_work(microbatches);
  step_.run_microbatches(microbatches, [this] { vote(); });
  const Decision decision = requests_.votes().resolve();
  const bool has_data = feed_.hear(requests_.votes());
  step_.update(microbatches, !decision.has(Vote::kSkipUpdate));
  end_step(decision, has_data);
  return has_data;
}

void Trainer::begin_step() {
  ++position_.run.step;
  run_.report.journal.add(StepBegan{state()});
  events_.event().step = state().step;
  events_.event().microbatch = 0;
  view_.step().lr_factor.reset();
  view_.step().loss.reset();
  events_.fire(TENON_EVENT_BEFORE_STEP);
}

// Casts this rank's votes, before the step's first forward.
void Trainer::vote() {
  Agreement& votes = requests_.votes();
  feed_.vote(votes);
  stop_.vote(votes);
  checkpoints_.vote(votes);
  if (stop_.is_interrupted()) {
    run_.report.journal.add(CommandReceived{"stop", stop_.own_interruption()});
  }
  if (stop_.is_time_up()) {
    votes.vote(Vote::kTimeIsUp);
  }
}

void Trainer::end_step(const Decision& decision, bool has_data) {
  run_.report.metrics.set("lr", run_.model.optimizer.lr(*view_.step().lr_factor));
  stop_.act_on(decision);
  roll_back_.note(requests_.take_spike(decision));
  stop_.check_tokens(run_.data.train.source().name());
  stop_.check_clock(decision);
  stop_.check_run_length();
  log_if_due(has_data);
  events_.fire(TENON_EVENT_AFTER_STEP);
  if (state().step == stop_.first_step() + 1) {
    run_.ranks.owner.end_first_step();
  }
  run_.report.journal.add(StepEnded{state()});
  const bool has_late_skips = view_.step().is_applied && finite_check_.take_late_skips();
  if (!view_.step().is_applied || has_late_skips) {
    events_.fire(TENON_EVENT_UPDATE_SKIPPED);
  }
  view_.step().microbatches = nullptr;
  roll_back_.pin_good();
  if (roll_back_.is_due()) {
    stop_.withdraw_run_length();
    roll_back();
  } else {
    if (evaluator_.is_due(RunBoundary::kStep) || decision.has(Vote::kEvaluate)) {
      evaluator_.evaluate();
    }
    checkpoints_.sync(decision);
  }
  at_boundary(RunBoundary::kStep);
}

// The last record of a window includes all metrics of the window.
void Trainer::log_if_due(bool has_data) {
  if (stop_.is_over() || !has_data) {
    finite_check_.sync();  // later would be too late to roll back
  }
  const bool ends_window = run_.data.train.window().has_value() && (!has_data || is_window_full());
  const bool has_failed = finite_check_.guard().failure().has_value();
  if (log_.is_due() || ends_window || (has_failed && !log_.has_logged())) {
    log_.log(roll_back_.records().size());
  }
}

void Trainer::roll_back() {
  const uint64_t first_step = stop_.first_step();
  const RollBack::Result result = roll_back_.run();
  show_loaded();
  requests_.forget();
  requests_.resume();
  stop_.start_after(std::min(first_step, state().step));
  position_.epoch_step = kNoStep;
  evaluator_.resume_after_roll_back();
  log_.restart_clock();
  if (run_.data.train.has_window() && !result.is_same_window) {
    run_.model.metrics.begin_window({state().step, 0, true});
  }
  run_.report.journal.add(StateRestored{.how = StateRestored::How::kRolledBack,
                                        .state = state(),
                                        .address = roll_back_.records().back().checkpoint,
                                        .why = result.why,
                                        .taken = result.taken});
  tenon_event& event = events_.event();
  event.step = state().step;
  event.message = result.why.c_str();
  events_.fire(TENON_EVENT_AFTER_LOAD);
  event.message = "";
  requests_.sync();
  evaluator_.evaluate_missed(feed_.last_window());
  checkpoints_.save(RunBoundary::kStep);  // after a crash, the run must not read the skipped data
}

// ---- boundaries ----

void Trainer::at_boundary(RunBoundary boundary) {
  if (boundary != RunBoundary::kStart) {
    if (run_.report.last_step.has_value()) {
      run_.report.last_step->write(state().step);
    }
    if (const auto& on_boundary = run_.plan.request.on_boundary) {
      on_boundary(boundary, *this);
    }
  }
  checkpoints_.save_if_due(boundary);
}

// Nothing has changed since the last boundary, except that the run ends.
void Trainer::save_at_end() {
  checkpoints_.save_if_due(run_.data.train.has_window() ? RunBoundary::kStep
                                                        : RunBoundary::kWindow);
}

// ---- loading ----

// Loads a state on this rank alone, since another rank may find that its part is corrupt.
void Trainer::take_over(const StateTree& tree) {
  whole_.load(tree);
  stop_.start_after(state().step);
  roll_back_.pin_used();
  load_data(tree);
  events_.event().step = state().step;
  if (!position_.resumes_epoch) {
    requests_.resume();
  }
}

// Takes the position in the data from another run, for a run that starts from scratch. Counts of
// epochs and windows continue from that position; steps are counted from 0.
void Trainer::take_position(const StateTree& tree) {
  if (run_.plan.request.is_eval_only) {
    return;
  }
  const auto count = [&](const char* name) {
    return saved_count(tree, state_path(run_state::kRun, name));
  };
  position_.run.epochs = count("epochs");
  position_.run.windows = count("windows");
  position_.steps_in_window = static_cast<int64_t>(count("steps_in_window"));
  load_data(tree);
  if (position_.resumes_window) {
    run_.model.metrics.begin_window({state().step, 0, true});
  }
  report_restored(StateRestored::How::kPosition, "");
  stop_.check_run_length();
}

// Called once the counts of epochs and windows are loaded.
void Trainer::load_data(const StateTree& tree) {
  whole_.load_data(tree);
  const DataStream& data = run_.data.train;
  const uint64_t epochs = state().epochs;
  position_.resumes_epoch = data.epoch() == epochs;
  position_.resumes_window = position_.resumes_epoch && data.has_window();
  events_.event().epoch = position_.resumes_epoch || epochs == 0 ? epochs : epochs - 1;
}

void Trainer::report_restored(StateRestored::How how, const std::string& address) {
  run_.report.journal.add(StateRestored{
      .how = how, .state = state(), .address = address, .taken = loader_.resumed_journal()});
}

// Publishes loaded values to blocks, and makes sinks drop later records, unless nothing follows.
void Trainer::show_loaded() {
  run_.model.sharded.publish();
  if (stop_.complete() != StopConditions::Complete::kFinished) {
    run_.report.sinks.resume(state().step, evaluator_.saved_records());
  }
}

void Trainer::reload_if_due(ReloadPoint point, uint64_t count) {
  if (loader_.reload(point, count)) {
    fire_and_sync(TENON_EVENT_AFTER_LOAD);
  }
}

// ---- reporting ----

// Fires an event, and applies the requests that hooks make at it.
void Trainer::fire_and_sync(uint32_t event) {
  events_.fire(event);
  requests_.sync();
}

void Trainer::report_failure(Error failure, Outcome& outcome) {
  view_.note_failure();
  if (failure.id() == "run.out_of_memory") {
    failure =
        Error(failure.id(), failure.message() + ". " + memory_report(run_, feed_.batch_bytes()));
  }
  run_.report.journal.add(
      RunFailed{.state = state(), .id = failure.id(), .text = failure.message()});
  const FailedEnd end = run_.ranks.owner.fail(failure);
  if (end.is_reported) {
    log_to_file(end.error.what());
  } else {
    log_error(end.error.what());
  }
  outcome.code = end.code;
  outcome.reason = end.error.what();
  outcome.error_id = end.error.id();
  events_.fire_in_reverse(TENON_EVENT_ON_ERROR, outcome.reason);
}

void Trainer::report_end(bool has_failed, Outcome& outcome) {
  if (has_failed && run_.is_alone()) {  // a save under way may still be valid
    checkpoints_.finish_all();
  }
  if (!run_.plan.request.tables.export_to.empty() && !has_failed && evaluator_.restore_best()) {
    run_.model.sharded.publish();
  }
  checkpoints_.add_counts(outcome);
  loader_.add_to(outcome);
  outcome.state = state();
  outcome.windows = feed_.count();
  outcome.packed = feed_.packed_rows();
  if (run_.report.flops != nullptr) {
    outcome.flops = run_.report.flops->total();
  }
  outcome.non_finite = finite_check_.guard().count();
  outcome.best = evaluator_.best();
  outcome.roll_backs = roll_back_.records();
  outcome.seconds = stop_.seconds();
  events_.event().is_train = 1;
  events_.fire_in_reverse(TENON_EVENT_END, outcome.reason);
  run_.data.train.close_window();
  run_.report.journal.add(LoopEnded{state()});
  outcome.lost_records = run_.report.sinks.num_lost();
  outcome.last_metrics = log_.last_metrics();
  outcome.last_metrics.merge(std::map(evaluator_.last_metrics()));
}

}  // namespace tenon
