// SPDX-License-Identifier: Apache-2.0
#include "host/train/evaluator.hpp"

#include "host/data/packed_source.hpp"
#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/metrics/metrics_service.hpp"
#include "host/text/formatted.hpp"
#include "host/train/same_data.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

namespace tenon {
namespace {

// "  eval/loss 0.6931".
void append_metric(std::string& line, const std::string& name, double value) {
  char text[32];
  std::snprintf(text, sizeof(text), " %.4f", value);
  line += "  " + name + text;
}

// Considers an evaluation of single windows, which may lack the metric: it covers other sets, or
// nothing.
void consider_windows(BestState* best, const std::optional<MetricRecord>& record, uint64_t step) {
  if (best != nullptr && record.has_value() && record->find(best->metric()) != nullptr) {
    best->consider(*record, step);
  }
}

}  // namespace

Evaluator::Evaluator(RunServices& run,
                     const RunState& state,
                     LoopEvents& events,
                     HookView& view,
                     LoopRequests& requests,
                     StopConditions& stop,
                     StepLog& log,
                     ForwardPass& forward_pass)
    : run_(run),
      state_(state),
      events_(events),
      step_(view.step()),
      requests_(requests),
      stop_(stop),
      log_(log),
      batches_(run, state, events, view.step(), stop, forward_pass),
      series_(run.model.losses) {}

bool Evaluator::is_paired(const EvalSet& set) const {
  return has_paired_windows(set, run_.recipe().eval, run_.data.train);
}

std::optional<uint64_t> Evaluator::evaluated_step() const {
  return window_step_.has_value() ? window_step_
         : is_evaluated_          ? std::optional(evaluated_step_)
                                  : std::nullopt;
}

void Evaluator::forget_evaluated() {
  is_evaluated_ = false;
  evaluated_step_ = 0;
  window_step_.reset();
  last_metrics_.clear();
}

bool Evaluator::is_due(RunBoundary boundary) const {
  const RunState& state = state_;
  switch (boundary) {
    case RunBoundary::kStart:
      return run_.recipe().eval.at_start && state.step == 0;
    case RunBoundary::kStep:
      return run_.recipe().eval.every.is_due(ScheduleUnit::kStep, state.step) &&
             !run_.data.eval_sets.empty();
    case RunBoundary::kWindow:
      return run_.recipe().eval.every.is_due(ScheduleUnit::kWindow, state.windows);
    case RunBoundary::kEpoch:
      return run_.recipe().eval.every.is_due(ScheduleUnit::kEpoch, state.epochs);
  }
  return false;
}

bool Evaluator::try_sets(std::set<std::string>& names) {
  bool are_tried = true;
  for (const auto* const sets : {&run_.data.eval_sets, &run_.data.test_sets}) {
    for (const EvalSet& set : *sets) {
      are_tried = batches_.try_first_batch(set, names) && are_tried;
    }
  }
  return are_tried;
}

// ---- evaluations ----

void Evaluator::evaluate() {
  const uint64_t step = state_.step;
  if (run_.data.eval_sets.empty() || (is_evaluated_ && evaluated_step_ == step)) {
    return;
  }
  missed_.all = true;  // until it is complete
  if (stop_.cuts_evaluation()) {
    return;
  }
  run_.model.values.during(state_.step, [this] { evaluate_all_sets(); });
  end_failed();
}

void Evaluator::evaluate_all_sets() {
  const uint64_t step = state_.step;
  const uint64_t records_before = num_records();
  const auto record = run(
      "eval/", "", [this](std::string& line) { return evaluate_sets(run_.data.eval_sets, line); });
  num_cut_records_ = record.has_value() ? 0 : num_records() - records_before;
  if (!record.has_value()) {
    return;
  }
  missed_.all = false;
  is_evaluated_ = true;
  evaluated_step_ = step;
  window_step_.reset();
  if (run_.model.best != nullptr && !is_best_restored_ &&
      run_.model.best->metric().starts_with("eval/")) {
    run_.model.best->consider(*record, step);
  }
}

void Evaluator::evaluate_test_sets() {
  if (run_.data.test_sets.empty() || stop_.cuts_evaluation()) {
    return;
  }
  run_.model.values.during(state_.step, [this] {
    run("test/", "", [this](std::string& line) {
      return evaluate_sets(run_.data.test_sets, line);
    });
  });
  end_failed();
}

void Evaluator::evaluate_next_window() {
  DataStream& data = run_.data.train;
  missed_.next_window = true;
  if (stop_.cuts_evaluation()) {
    return;
  }
  data.use_options(for_evaluation(data.options(), run_.recipe().eval.batches));
  std::optional<MetricRecord> record;
  run_.model.values.during(state_.step, [&] {
    record = run("next/", data.window_label(), [&](std::string& line) {
      return evaluate_open_window(data, "next/", line);
    });
  });
  if (!is_best_restored_) {
    consider_windows(run_.model.best.get(), record, state_.step);
  }
  data.resume_options();
  missed_.next_window = !record.has_value();
  end_failed();
}

// If the evaluation of a set is interrupted, the set keeps its window open for the resumed run.
void Evaluator::evaluate_paired_windows(const std::string& label) {
  missed_.paired_windows = true;
  if (stop_.cuts_evaluation()) {
    return;
  }
  std::vector<DataStream*> complete;
  DataStream* cut = nullptr;
  std::optional<MetricRecord> record;
  run_.model.values.during(state_.step, [&] {
    record = run("eval/", label, [&](std::string& line) {
      for (const EvalSet& set : run_.data.eval_sets) {
        if (!is_paired(set) || !set.data->has_window()) {
          continue;
        }
        if (!evaluate_open_window(*set.data, set.prefix, line)) {
          cut = set.data;
          return false;
        }
        complete.push_back(set.data);
      }
      return true;
    });
  });
  if (record.has_value()) {
    window_step_ = state_.step;
    if (!is_best_restored_) {
      consider_windows(run_.model.best.get(), record, state_.step);
    }
  }
  for (DataStream* const data : complete) {
    data->close_window();
  }
  if (cut != nullptr) {
    cut->rewind_window();
  }
  missed_.paired_windows = cut != nullptr;
  end_failed();
}

// The values of training are back, and the state says what was not evaluated: it can be saved.
void Evaluator::end_failed() {
  if (batches_.has_failed()) {
    if (on_failure_) {
      on_failure_(is_best_restored_);
    }
    batches_.rethrow();
  }
}

bool Evaluator::evaluate_before_window(bool is_resumed, const std::string& label) {
  const bool next_is_due = !is_resumed || missed_.next_window;
  const bool paired_are_due = !is_resumed || missed_.paired_windows;
  if (run_.recipe().eval.next_window && !stop_.is_over() && next_is_due) {
    evaluate_next_window();
  }
  if (run_.recipe().eval.with_window == WithWindow::kBefore && paired_are_due) {
    missed_.paired_windows = true;  // if the run is over, the resumed run evaluates them
    if (!stop_.is_over()) {
      evaluate_paired_windows(label);
    }
  }
  return next_is_due || paired_are_due;
}

void Evaluator::evaluate_missed(const std::string& last_window) {
  if (missed_.paired_windows && run_.recipe().eval.with_window == WithWindow::kAfter) {
    tenon_event& event = events_.event();
    const tenon_event saved = event;
    event.window = static_cast<uint64_t>(run_.data.train.opened_number());
    event.window_label = last_window.c_str();
    evaluate_paired_windows(last_window);
    event = saved;
  }
  if (missed_.all) {
    evaluate();
  }
}

void Evaluator::resume_after_roll_back() {
  missed_.next_window = false;  // these windows are over
  missed_.paired_windows = false;
  num_cut_records_ = 0;
}

// ---- one evaluation ----

// Returns none if a signal interrupted the evaluation.
std::optional<MetricRecord> Evaluator::run(const std::string& family,
                                           const std::string& window,
                                           const EvaluateAll& evaluate_all) {
  const auto began = std::chrono::steady_clock::now();
  tenon_event& event = events_.event();
  const tenon_event saved = event;
  event.is_train = 0;
  event.microbatch = 0;
  if (window.empty()) {
    event.window = 0;
    event.window_label = "";
  }
  event.message = family == "eval/" ? "" : family.c_str();
  events_.fire(TENON_EVENT_BEFORE_EVALUATE);
  std::string line = formatted("step {}", state_.step);
  if (!window.empty()) {
    line += "  window " + window;
  }
  event.message = "";
  const bool is_complete = evaluate_all(line);
  MetricRecord record = write_record(family, window, line);
  if (is_complete) {
    event.message = family == "eval/" ? "" : family.c_str();
    events_.fire(TENON_EVENT_AFTER_EVALUATE);  // hooks expect all metrics
  }
  event = saved;
  requests_.sync();
  log_.add_pause(std::chrono::steady_clock::now() - began);
  return is_complete ? std::optional(std::move(record)) : std::nullopt;
}

// Writes a separate record. Metrics of training stay for the next training record.
MetricRecord Evaluator::write_record(const std::string& family,
                                     const std::string& window,
                                     const std::string& line) {
  run_.report.metrics.share(run_.ranks.groups.sums(), family);
  MetricRecord record = run_.report.metrics.close(state_.step, family);
  record.window = window;
  for (const auto& [name, value] : record.values) {
    last_metrics_[name] = value;
  }
  if (!record.values.empty()) {
    run_.report.journal.add(EvaluationRecorded{.record = record, .family = family, .line = line});
  }
  return record;
}

bool Evaluator::evaluate_sets(const std::vector<EvalSet>& sets, std::string& line) {
  return std::ranges::all_of(sets, [&](const EvalSet& set) { return evaluate_set(set, line); });
}

// A paired set returns to its previous position afterwards.
bool Evaluator::evaluate_set(const EvalSet& set, std::string& line) {
  DataStream& data = *set.data;
  StateTree position;
  const bool has_position = is_paired(set) && data.epoch().has_value();
  if (has_position) {
    data.snapshot(position, "");
  }
  data.begin_epoch(0);
  events_.fire(TENON_EVENT_BEFORE_EPOCH);
  EvaluationSums sums(run_.model.losses.size());
  run_.model.metrics.begin_evaluation();
  const bool is_complete = evaluate_windows(data, set.prefix, sums);
  data.close_window();
  report_over_long(set);
  if (has_position) {
    data.load(position, "");
  }
  events_.fire(TENON_EVENT_AFTER_EPOCH);
  if (is_complete && !record(set.prefix, sums, "", line)) {
    throw Error("data.empty", data.source().name() + " gave nothing to evaluate on");
  }
  return is_complete;
}

void Evaluator::report_over_long(const EvalSet& set) const {
  const PackedSource* const packed = set.data->source().packed();
  const PackCounts counts = set.data->pack_counts_of_epoch();
  if (packed != nullptr && counts.lost > 0 && run_.role().is_first()) {
    log_warning(set.prefix.substr(0, set.prefix.rfind('/')) + ": " +
                tenon::describe(counts, packed->options()));
  }
}

bool Evaluator::evaluate_windows(DataStream& data,
                                 const std::string& prefix,
                                 EvaluationSums& sums) {
  tenon_event& event = events_.event();
  bool is_complete = true;
  for (uint64_t window = 0;
       is_complete && next_window_together(data, run_.ranks.groups.all()) == NextWindow::kOpen;
       ++window) {
    const MetricPrefix metrics(prefix);
    event.window = window;
    event.window_label = data.window_label().c_str();
    is_complete = batches_.evaluate(data, prefix, sums);
  }
  event.window = 0;
  event.window_label = "";
  return is_complete;
}

// Evaluates one window, and records metrics of the window and of all such windows so far.
bool Evaluator::evaluate_open_window(DataStream& data,
                                     const std::string& prefix,
                                     std::string& line) {
  EvaluationSums sums(run_.model.losses.size());
  run_.model.metrics.begin_evaluation();
  events_.event().window_label = data.window_label().c_str();
  {
    const MetricPrefix metrics(prefix);
    if (!batches_.evaluate(data, prefix, sums)) {
      return false;
    }
  }
  if (!record(prefix, sums, prefix, line)) {
    line += "  nothing to evaluate on";
  }
  return true;
}

// Returns false, without metrics, if some loss has a count of 0 over all ranks.
bool Evaluator::record(const std::string& prefix,
                       const EvaluationSums& sums,
                       const std::string& series,
                       std::string& line) {
  const auto losses = series_.close(sums, run_.ranks.groups.sums(), series);
  if (!losses.has_value()) {
    run_.model.metrics.drop_evaluation();
    return false;
  }
  for (const auto& [name, value] : *losses) {
    run_.report.metrics.set(prefix + name, value);
    if (name == "loss" || name == "loss/run") {  // the totals
      append_metric(line, prefix + name, value);
    }
  }
  series_.add_sources(sums, prefix, run_.report.metrics);
  const CallPoint point{state_.step, 0, false};
  for (const auto& [name, value] :
       run_.model.metrics.end_evaluation(run_.ranks.groups.sums(), point, series)) {
    run_.report.metrics.set(prefix + name, value);
    append_metric(line, prefix + name, value);
  }
  return true;
}

// ---- the best evaluation ----

std::optional<BestEvaluation> Evaluator::best() const {
  if (run_.model.best == nullptr || !run_.model.best->kept().has_value()) {
    return std::nullopt;
  }
  const BestState::Kept& kept = *run_.model.best->kept();
  return BestEvaluation{.step = kept.step,
                        .metric = run_.model.best->metric(),
                        .value = kept.value,
                        .bytes = kept.bytes};
}

bool Evaluator::restore_best() {
  if (run_.model.best == nullptr || is_best_restored_) {
    return false;
  }
  const auto& kept = run_.model.best->kept();
  if (!kept.has_value()) {
    if (run_.role().is_first()) {
      log_warning("no evaluation has given a " + run_.model.best->metric() +
                  ": the run ends with its last parameters");
    }
    return false;
  }
  is_best_restored_ = true;
  const bool is_restored = kept->step != state_.step;
  if (is_restored) {
    run_.model.best->restore();
    run_.model.values.set_final();
    is_evaluated_ = false;
    evaluated_step_ = 0;
    window_step_.reset();
  }
  char text[160];
  std::snprintf(text,
                sizeof(text),
                "best: step %llu, %.60s %.6g; the parameters are those of that step (%.1f MB kept)",
                static_cast<unsigned long long>(kept->step),
                run_.model.best->metric().c_str(),
                kept->value,
                static_cast<double>(kept->bytes) / 1e6);
  run_.report.journal.add(Remark{text});
  return is_restored;
}

}  // namespace tenon
