// SPDX-License-Identifier: Apache-2.0
#include "host/train/evaluator.hpp"

#include "host/data/batch_builder.hpp"
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

// Streams do not say which source a sample comes from.
bool is_mix(const DataSource& source) {
  return !source.parts().empty() && source.info().style == DatasetStyle::kMap;
}

}  // namespace

Evaluator::Evaluator(Parts parts)
    : parts_(std::move(parts)), votes_(parts_.collective), series_(parts_.losses) {}

bool Evaluator::is_paired(const EvalSet& set) const {
  return has_paired_windows(set, parts_.recipe, parts_.train_data);
}

std::optional<uint64_t> Evaluator::evaluated_step() const {
  return is_evaluated_ ? std::optional(evaluated_step_) : std::nullopt;
}

bool Evaluator::is_due(RunBoundary boundary) const {
  const RunState& state = parts_.state;
  switch (boundary) {
    case RunBoundary::kStart:
      return parts_.recipe.at_start && state.step == 0;
    case RunBoundary::kStep:
      return parts_.recipe.every.is_due(ScheduleUnit::kStep, state.step) && !parts_.sets.empty();
    case RunBoundary::kWindow:
      return parts_.recipe.every.is_due(ScheduleUnit::kWindow, state.windows);
    case RunBoundary::kEpoch:
      return parts_.recipe.every.is_due(ScheduleUnit::kEpoch, state.epochs);
  }
  return false;
}

// ---- evaluations ----

void Evaluator::evaluate() {
  const uint64_t step = parts_.state.step;
  if (parts_.sets.empty() || evaluated_step() == step) {
    return;
  }
  missed_.all = true;  // until it is complete
  if (parts_.stop.cuts_evaluation()) {
    return;
  }
  parts_.values.during(parts_.state.step, [this] { evaluate_all_sets(); });
}

void Evaluator::evaluate_all_sets() {
  const uint64_t step = parts_.state.step;
  const uint64_t records_before = num_records();
  const auto record =
      run("eval/", "", [this](std::string& line) { return evaluate_sets(parts_.sets, line); });
  num_cut_records_ = record.has_value() ? 0 : num_records() - records_before;
  if (!record.has_value()) {
    return;
  }
  missed_.all = false;
  is_evaluated_ = true;
  evaluated_step_ = step;
  if (parts_.best != nullptr && !best_.has_value()) {
    parts_.best->consider(*record, step);
  }
}

void Evaluator::evaluate_test_sets() {
  if (parts_.test_sets.empty() || parts_.stop.cuts_evaluation()) {
    return;
  }
  parts_.values.during(parts_.state.step, [this] {
    run("test/", "", [this](std::string& line) { return evaluate_sets(parts_.test_sets, line); });
  });
}

void Evaluator::evaluate_next_window() {
  DataStream& data = parts_.train_data;
  missed_.next_window = true;
  if (parts_.stop.cuts_evaluation()) {
    return;
  }
  data.use_options(for_evaluation(data.options(), parts_.recipe.batches));
  std::optional<MetricRecord> record;
  parts_.values.during(parts_.state.step, [&] {
    record = run("next/", data.window_label(), [&](std::string& line) {
      return evaluate_open_window(data, "next/", line);
    });
  });
  data.resume_options();
  missed_.next_window = !record.has_value();
}

// If the evaluation of a set is interrupted, the set keeps its window open for the resumed run.
void Evaluator::evaluate_paired_windows(const std::string& label) {
  missed_.paired_windows = true;
  if (parts_.stop.cuts_evaluation()) {
    return;
  }
  std::vector<DataStream*> complete;
  DataStream* cut = nullptr;
  parts_.values.during(parts_.state.step, [&] {
    run("eval/", label, [&](std::string& line) {
      for (const EvalSet& set : parts_.sets) {
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
  for (DataStream* const data : complete) {
    data->close_window();
  }
  if (cut != nullptr) {
    cut->rewind_window();
  }
  missed_.paired_windows = cut != nullptr;
}

bool Evaluator::evaluate_before_window(bool is_resumed, const std::string& label) {
  const bool next_is_due = !is_resumed || missed_.next_window;
  const bool paired_are_due = !is_resumed || missed_.paired_windows;
  if (parts_.recipe.next_window && !parts_.stop.is_over() && next_is_due) {
    evaluate_next_window();
  }
  if (parts_.recipe.with_window == WithWindow::kBefore && paired_are_due) {
    missed_.paired_windows = true;  // if the run is over, the resumed run evaluates them
    if (!parts_.stop.is_over()) {
      evaluate_paired_windows(label);
    }
  }
  return next_is_due || paired_are_due;
}

void Evaluator::evaluate_missed(const std::string& last_window) {
  if (missed_.paired_windows && parts_.recipe.with_window == WithWindow::kAfter) {
    tenon_event& event = parts_.events.place();
    const tenon_event saved = event;
    event.window = static_cast<uint64_t>(parts_.train_data.opened_number());
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
  tenon_event& event = parts_.events.place();
  const tenon_event saved = event;
  event.is_train = 0;
  event.microbatch = 0;
  if (window.empty()) {
    event.window = 0;
    event.window_label = "";
  }
  event.message = family == "eval/" ? "" : family.c_str();
  parts_.events.fire(TENON_EVENT_BEFORE_EVALUATE);
  std::string line = formatted("step {}", parts_.state.step);
  if (!window.empty()) {
    line += "  window " + window;
  }
  event.message = "";
  const bool is_complete = evaluate_all(line);
  MetricRecord record = write_record(family, window, line);
  if (is_complete) {
    event.message = family == "eval/" ? "" : family.c_str();
    parts_.events.fire(TENON_EVENT_AFTER_EVALUATE);  // hooks expect all metrics
  }
  event = saved;
  parts_.requests.sync();
  parts_.log.add_pause(std::chrono::steady_clock::now() - began);
  return is_complete ? std::optional(std::move(record)) : std::nullopt;
}

// Writes a separate record. Metrics of training stay for the next training record.
MetricRecord Evaluator::write_record(const std::string& family,
                                     const std::string& window,
                                     const std::string& line) {
  parts_.metrics.share(parts_.collective, family);
  MetricRecord record = parts_.metrics.close(parts_.state.step, family);
  record.window = window;
  for (const auto& [name, value] : record.values) {
    last_metrics_[name] = value;
  }
  if (!record.values.empty()) {
    parts_.sinks.write(record);
    parts_.progress.say(line);
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
  parts_.events.fire(TENON_EVENT_BEFORE_EPOCH);
  EvaluationSums sums(parts_.losses.size());
  parts_.metric_set.begin_evaluation();
  const bool is_complete = evaluate_windows(data, set.prefix, sums);
  data.close_window();
  report_over_long(set);
  if (has_position) {
    data.load(position, "");
  }
  parts_.events.fire(TENON_EVENT_AFTER_EPOCH);
  if (is_complete && !record(set.prefix, sums, "", line)) {
    throw Error("data.empty", data.source().name() + " gave nothing to evaluate on");
  }
  return is_complete;
}

void Evaluator::report_over_long(const EvalSet& set) const {
  const PackedSource* const packed = set.data->source().packed();
  const PackCounts counts = set.data->pack_counts_of_epoch();
  if (packed != nullptr && counts.lost > 0 && parts_.collective.rank() == 0) {
    log_warning(set.prefix.substr(0, set.prefix.rfind('/')) + ": " +
                tenon::describe(counts, packed->options()));
  }
}

bool Evaluator::evaluate_windows(DataStream& data,
                                 const std::string& prefix,
                                 EvaluationSums& sums) {
  tenon_event& event = parts_.events.place();
  bool is_complete = true;
  for (uint64_t window = 0;
       is_complete && next_window_together(data, parts_.collective) == NextWindow::kOpen;
       ++window) {
    const MetricPrefix metrics(prefix);
    event.window = window;
    event.window_label = data.window_label().c_str();
    is_complete = evaluate_window(data, sums);
  }
  event.window = 0;
  event.window_label = "";
  return is_complete;
}

// Evaluates one window, and records metrics of the window and of all such windows so far.
bool Evaluator::evaluate_open_window(DataStream& data,
                                     const std::string& prefix,
                                     std::string& line) {
  EvaluationSums sums(parts_.losses.size());
  parts_.metric_set.begin_evaluation();
  parts_.events.place().window_label = data.window_label().c_str();
  {
    const MetricPrefix metrics(prefix);
    if (!evaluate_window(data, sums)) {
      return false;
    }
  }
  if (!record(prefix, sums, prefix, line)) {
    line += "  nothing to evaluate on";
  }
  return true;
}

bool Evaluator::evaluate_window(DataStream& data, EvaluationSums& sums) {
  parts_.events.fire(TENON_EVENT_BEFORE_WINDOW);
  start_vote(data);
  BatchVote vote = finish_vote(data);
  while (vote == BatchVote::kMore) {
    evaluate_batch(data, sums);
    vote = finish_vote(data);
  }
  parts_.events.place().microbatch = 0;
  if (vote != BatchVote::kCut && !data.has_reached_limit()) {
    parts_.events.fire(TENON_EVENT_OUT_OF_DATA);
  }
  parts_.events.fire(TENON_EVENT_AFTER_WINDOW);
  return vote != BatchVote::kCut;
}

// The vote on the next batch runs while this batch is evaluated.
void Evaluator::evaluate_batch(DataStream& data, EvaluationSums& sums) {
  auto next = data.loader().next();
  Microbatch microbatch{.batch = next.has_value() ? std::move(*next)
                                                  : empty_batch(data.source().info().schema)};
  microbatch.is_by_source = parts_.by_source && is_mix(data.source());
  start_vote(data);
  parts_.events.place().microbatch = sums.microbatch;
  const CallPlace place{parts_.state.step, static_cast<uint32_t>(sums.microbatch), false};
  parts_.step.batch = &microbatch.batch;
  parts_.events.fire(TENON_EVENT_AFTER_DATA);
  parts_.forward_pass.run_model(microbatch.batch, place);
  parts_.forward_pass.run_losses(microbatch, place, [&] {
    parts_.metric_set.evaluate(parts_.model, microbatch.batch, place);
    sums.add(microbatch.sums, microbatch.counts);
    sums.add_sources(microbatch.by_source, data.source().parts());
  });
  parts_.model.clear();
  parts_.step.batch = nullptr;
  ++sums.microbatch;
}

// Returns false, without metrics, if some loss has a count of 0 over all ranks.
bool Evaluator::record(const std::string& prefix,
                       const EvaluationSums& sums,
                       const std::string& series,
                       std::string& line) {
  const auto losses = series_.close(sums, parts_.collective, series);
  if (!losses.has_value()) {
    parts_.metric_set.drop_evaluation();
    return false;
  }
  for (const auto& [name, value] : *losses) {
    parts_.metrics.set(prefix + name, value);
    if (name == "loss" || name == "loss/run") {  // the totals
      append_metric(line, prefix + name, value);
    }
  }
  series_.add_sources(sums, prefix, parts_.metrics);
  const CallPlace place{parts_.state.step, 0, false};
  for (const auto& [name, value] :
       parts_.metric_set.end_evaluation(parts_.collective, place, series)) {
    parts_.metrics.set(prefix + name, value);
    append_metric(line, prefix + name, value);
  }
  return true;
}

// Ranks vote on the next batch while they evaluate the current one. All ranks continue as long as
// any rank has a batch, so the evaluated data does not depend on the number of ranks. A single rank
// needs no vote.
void Evaluator::start_vote(DataStream& data) {
  if (parts_.collective.world_size() == 1) {
    return;
  }
  const std::optional<int64_t> num_left = data.loader().num_batches_left();
  if (num_left.has_value() ? *num_left > 0 : data.loader().has_next()) {
    votes_.vote(Vote::kMoreData);
  }
  parts_.stop.vote(votes_);
  votes_.start();
}

Evaluator::BatchVote Evaluator::finish_vote(DataStream& data) {
  if (parts_.collective.world_size() == 1) {
    if (parts_.stop.cuts_evaluation()) {
      return BatchVote::kCut;
    }
    return data.loader().has_next() ? BatchVote::kMore : BatchVote::kEnd;
  }
  const Decision& decision = votes_.resolve();
  if (decision.has(Vote::kInterrupted)) {
    parts_.stop.cut_evaluation();
    return BatchVote::kCut;
  }
  return decision.has(Vote::kMoreData) ? BatchVote::kMore : BatchVote::kEnd;
}

// ---- the best evaluation ----

bool Evaluator::restore_best() {
  if (parts_.best == nullptr) {
    return false;
  }
  const auto& kept = parts_.best->kept();
  if (!kept.has_value()) {
    if (parts_.collective.rank() == 0) {
      log_warning("no evaluation has given a " + parts_.best->metric() +
                  ": the run ends with its last parameters");
    }
    return false;
  }
  best_ = BestEvaluation{.step = kept->step,
                         .metric = parts_.best->metric(),
                         .value = kept->value,
                         .bytes = kept->bytes};
  const bool is_restored = kept->step != parts_.state.step;
  if (is_restored) {
    parts_.best->restore();
    parts_.values.set_final();
    is_evaluated_ = false;
    evaluated_step_ = 0;
  }
  char text[160];
  std::snprintf(text,
                sizeof(text),
                "best: step %llu, %.60s %.6g; the parameters are those of that step (%.1f MB kept)",
                static_cast<unsigned long long>(kept->step),
                parts_.best->metric().c_str(),
                kept->value,
                static_cast<double>(kept->bytes) / 1e6);
  parts_.progress.say(text);
  return is_restored;
}

}  // namespace tenon
