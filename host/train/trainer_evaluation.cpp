// SPDX-License-Identifier: Apache-2.0
//
// Where the loop meets evaluation: which sets are due, batches of all ranks, what is told of them,
// and what a signal cuts.
#include "host/data/batch_builder.hpp"
#include "host/log/log.hpp"
#include "host/metrics/metrics_service.hpp"
#include "host/train/tiled_loss.hpp"
#include "host/train/trainer.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <utility>

namespace tenon {

Trainer::Tally::Tally(size_t num_losses)
    : sums(num_losses, at::zeros({}, at::kDouble)),
      counts(num_losses, at::zeros({}, at::kDouble)) {}

void Trainer::evaluate() {
  // The same parameters give the same figures: two reasons to evaluate after one step are one
  // evaluation.
  if (parts_.eval_sets.empty() || evaluated_step_ == state_.step) {
    return;
  }
  due_.all = true;  // until it is whole
  if (is_evaluation_cut()) {
    return;
  }
  const uint64_t num_records = parts_.sinks.num_of_step(state_.step);
  const auto record = run_evaluation("eval/", "", [this](std::string& line) {
    return std::ranges::all_of(parts_.eval_sets,
                               [&](const EvalSet& set) { return evaluate_set(set, line); });
  });
  num_cut_records_ = record.has_value() ? 0 : parts_.sinks.num_of_step(state_.step) - num_records;
  if (record.has_value()) {
    due_.all = false;
    evaluated_step_ = state_.step;
    if (parts_.best != nullptr && !is_best_restored_) {
      parts_.best->consider(*record, state_.step);
    }
  }
}

void Trainer::evaluate_test_sets() {
  if (parts_.test_sets.empty() || is_evaluation_cut()) {
    return;
  }
  run_evaluation("test/", "", [this](std::string& line) {
    return std::ranges::all_of(parts_.test_sets,
                               [&](const EvalSet& set) { return evaluate_set(set, line); });
  });
}

// Progressive validation: what the window would have been like for the parameters so far, before
// they have seen it.
void Trainer::evaluate_next_window() {
  DataStream& data = parts_.train_data;
  due_.next_window = true;
  if (is_evaluation_cut()) {
    return;
  }
  data.use_options(for_evaluation(data.options(), eval_.batches));
  const auto record = run_evaluation("next/", data.window_label(), [&](std::string& line) {
    return evaluate_open_window(data, "next/", line);
  });
  data.resume_options();
  due_.next_window = !record.has_value();
}

// The windows that were opened beside the one that is trained on. Of those that are not evaluated
// wholly the run that goes on makes up for the rest.
void Trainer::evaluate_with_window() {
  due_.with_window = true;
  if (is_evaluation_cut()) {
    return;
  }
  std::vector<DataStream*> whole;
  DataStream* cut = nullptr;
  run_evaluation("eval/", window_label_, [&](std::string& line) {
    for (const EvalSet& set : parts_.eval_sets) {
      if (!has_paired_windows(set) || !set.data->has_window()) {
        continue;
      }
      if (!evaluate_open_window(*set.data, set.prefix, line)) {
        cut = set.data;
        return false;
      }
      whole.push_back(set.data);
    }
    return true;
  });
  for (DataStream* const data : whole) {
    data->close_window();
  }
  if (cut != nullptr) {
    cut->rewind_window();
  }
  due_.with_window = cut != nullptr;
}

// What a signal has cut short where the run was saved. What stands before a window's first step is
// made up for there.
void Trainer::make_up_evaluations() {
  if (due_.with_window && eval_.with_window == WithWindow::kAfter) {
    tenon_event& event = hooks_.event();
    const tenon_event saved = event;
    window_label_ = outcome_.windows.last;
    event.window = static_cast<uint64_t>(parts_.train_data.opened_number());
    event.window_label = window_label_.c_str();
    evaluate_with_window();
    event = saved;
  }
  if (due_.all) {
    evaluate();
  }
}

bool Trainer::has_paired_windows(const EvalSet& set) const {
  return eval_.with_window != WithWindow::kNever && set.data->source().info().has_windows &&
         parts_.train_data.source().info().has_windows;
}

std::optional<MetricRecord> Trainer::run_evaluation(
    const std::string& family,
    const std::string& window,
    const std::function<bool(std::string& line)>& evaluate_all) {
  const auto began = std::chrono::steady_clock::now();
  const tenon_event saved = hooks_.event();
  tenon_event& event = hooks_.event();
  event.is_train = 0;
  event.microbatch = 0;
  if (window.empty()) {
    event.window = 0;
    event.window_label = "";
  }
  event.message = family == "eval/" ? "" : family.c_str();
  fire(TENON_EVENT_BEFORE_EVALUATE);
  std::string line = "step " + std::to_string(state_.step);
  if (!window.empty()) {
    line += "  window " + window;
  }
  event.message = "";
  const bool is_whole = evaluate_all(line);
  // A record of its own: what training has gathered so far stays for its next record.
  parts_.metrics.share(parts_.collective, family);
  MetricRecord record = parts_.metrics.close(state_.step, family);
  record.window = window;
  for (const auto& [name, value] : record.values) {
    outcome_.last_metrics[name] = value;
  }
  if (!record.values.empty()) {
    parts_.sinks.write(record);
    parts_.progress.say(line);
  }
  if (is_whole) {
    event.message = family == "eval/" ? "" : family.c_str();
    fire(TENON_EVENT_AFTER_EVALUATE);  // hooks look for all figures there
  }
  hooks_.event() = saved;
  settle_wishes();
  paused_seconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return is_whole ? std::optional(std::move(record)) : std::nullopt;
}

bool Trainer::evaluate_set(const EvalSet& set, std::string& line) {
  DataStream& data = *set.data;
  // One that goes along with training is gone on with afterwards.
  StateTree position;
  const bool goes_along = has_paired_windows(set) && data.epoch().has_value();
  if (goes_along) {
    data.snapshot(position, "");
  }
  data.begin_epoch(0);
  fire(TENON_EVENT_BEFORE_EPOCH);
  Tally tally(parts_.losses.size());
  parts_.metric_set.begin_evaluation();
  const bool is_whole = evaluate_windows(data, set.prefix, tally);
  data.close_window();
  if (goes_along) {
    data.load(position, "");
  }
  fire(TENON_EVENT_AFTER_EPOCH);
  if (is_whole && !record_evaluation(set.prefix, tally, "", line)) {
    throw Error("data.empty", data.source().name() + " gave nothing to evaluate on");
  }
  return is_whole;
}

bool Trainer::evaluate_windows(DataStream& data, const std::string& prefix, Tally& tally) {
  tenon_event& event = hooks_.event();
  bool is_whole = true;
  for (uint64_t window = 0;
       is_whole && next_window_together(data, parts_.collective) == NextWindow::kOpen;
       ++window) {
    const FigurePrefix figures(prefix);
    event.window = window;
    event.window_label = data.window_label().c_str();
    is_whole = evaluate_window(data, tally);
  }
  event.window = 0;
  event.window_label = "";
  return is_whole;
}

// One window by itself, with figures of its own, and those of all such windows so far.
bool Trainer::evaluate_open_window(DataStream& data, const std::string& prefix, std::string& line) {
  Tally tally(parts_.losses.size());
  parts_.metric_set.begin_evaluation();
  hooks_.event().window_label = data.window_label().c_str();
  {
    const FigurePrefix figures(prefix);
    if (!evaluate_window(data, tally)) {
      return false;
    }
  }
  if (!record_evaluation(prefix, tally, prefix, line)) {
    line += "  nothing to evaluate on";
  }
  return true;
}

// False, without figures, where there was nothing on any rank.
bool Trainer::record_evaluation(const std::string& prefix,
                                const Tally& tally,
                                const std::string& series,
                                std::string& line) {
  const auto tell = [&](const std::string& name, double figure) {
    parts_.metrics.set(prefix + name, figure);
  };
  const auto say = [&](const std::string& name, double figure) {
    char value[32];
    std::snprintf(value, sizeof(value), "%.4f", figure);
    line += "  " + prefix + name + " " + value;
  };
  const size_t num_losses = tally.sums.size();
  std::vector<std::array<double, 2>> pairs(num_losses);
  for (size_t l = 0; l < num_losses; ++l) {
    pairs[l] = {tally.sums[l].item<double>(), tally.counts[l].item<double>()};
    parts_.collective.all_reduce(std::span(pairs[l]), Reduce::kSum, "figures of an evaluation");
    if (pairs[l][1] == 0) {
      parts_.metric_set.drop_evaluation();
      return false;
    }
  }
  const auto tell_losses = [&](const std::vector<std::array<double, 2>>& of, const char* suffix) {
    double total = 0;
    for (size_t l = 0; l < num_losses; ++l) {
      const double mean = of[l][0] / of[l][1];
      total += parts_.losses.weight(l) * mean;
      if (num_losses > 1) {
        tell("loss/" + parts_.losses.name(l) + suffix, mean);
      }
    }
    tell(std::string("loss") + suffix, total);
    say(std::string("loss") + suffix, total);
  };
  tell_losses(pairs, "");
  if (!series.empty()) {
    auto& all = series_.try_emplace(series, num_losses).first->second;
    for (size_t l = 0; l < num_losses; ++l) {
      all[l][0] += pairs[l][0];
      all[l][1] += pairs[l][1];
    }
    tell_losses(all, "/run");
  }
  for (const auto& [name, figure] : parts_.metric_set.end_evaluation(
           parts_.collective, CallPlace{state_.step, 0, false}, series)) {
    tell(name, figure);
    say(name, figure);
  }
  return true;
}

// The run ends with the parameters of its best evaluation.
void Trainer::restore_best() {
  if (parts_.best == nullptr) {
    return;
  }
  const auto& kept = parts_.best->kept();
  if (!kept.has_value()) {
    if (parts_.collective.rank() == 0) {
      log_warning("no evaluation has given a " + parts_.best->metric() +
                  ": the run ends with its last parameters");
    }
    return;
  }
  is_best_restored_ = true;
  outcome_.best = BestEvaluation{.step = kept->step,
                                 .metric = parts_.best->metric(),
                                 .value = kept->value,
                                 .bytes = kept->bytes};
  if (kept->step != state_.step) {
    parts_.best->restore();
    parts_.flow.publish();
    evaluated_step_.reset();
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
}

bool Trainer::evaluate_window(DataStream& data, Tally& tally) {
  tenon_event& event = hooks_.event();
  fire(TENON_EVENT_BEFORE_WINDOW);
  // Metrics read outputs as a whole.
  const bool is_tiled = train_.loss_tile.has_value() && parts_.metric_set.is_empty();
  const auto extent = is_tiled ? ModelRunner::Extent::kAllButTail : ModelRunner::Extent::kWhole;
  begin_turn(data);
  Turn turn = settle_turn(data);
  while (turn == Turn::kGoOn) {
    auto batch = data.loader().next();
    if (!batch.has_value()) {  // others have one still
      batch = empty_batch(data.source().info().schema);
    }
    begin_turn(data);
    event.microbatch = tally.microbatch;
    const CallPlace place{state_.step, static_cast<uint32_t>(tally.microbatch), false};
    batch_ = &*batch;
    fire(TENON_EVENT_AFTER_DATA);
    fire(TENON_EVENT_BEFORE_FORWARD);
    if (batch->samples > 0) {
      parts_.model.forward(*batch, place, extent);
    } else {
      parts_.model.forward_idle(place, extent);
    }
    fire(TENON_EVENT_AFTER_FORWARD);
    fire(TENON_EVENT_BEFORE_LOSS);
    if (batch->samples > 0) {
      const auto batch_sums =
          is_tiled
              ? tiled_sums(parts_.model, parts_.losses, *batch, place, *train_.loss_tile, nullptr)
              : parts_.losses.compute(parts_.model, *batch, place);
      const auto batch_counts = is_tiled ? parts_.losses.count(*batch, place)
                                         : parts_.losses.count(parts_.model, *batch, place);
      parts_.metric_set.evaluate(parts_.model, *batch, place);
      for (size_t l = 0; l < batch_sums.size(); ++l) {
        tally.sums[l] = tally.sums[l] + batch_sums[l].to(at::kDouble);
        tally.counts[l] = tally.counts[l] + batch_counts[l];
      }
    }
    fire(TENON_EVENT_AFTER_LOSS);
    parts_.model.clear();
    batch_ = nullptr;
    ++tally.microbatch;
    turn = settle_turn(data);
  }
  event.microbatch = 0;
  if (turn != Turn::kCut && !data.has_reached_limit()) {
    fire(TENON_EVENT_OUT_OF_DATA);
  }
  fire(TENON_EVENT_AFTER_WINDOW);
  return turn != Turn::kCut;
}

// Whether an evaluation goes on is agreed beside the batch before: all ranks go on as long as one
// has a batch, so that what is evaluated does not depend on their number. On one rank nobody else
// has to be asked.
void Trainer::begin_turn(DataStream& data) {
  if (is_alone()) {
    return;
  }
  const std::optional<int64_t> num_left = data.loader().num_batches_left();
  if (num_left.has_value() ? *num_left > 0 : data.loader().has_next()) {
    turns_.vote(Vote::kMoreData);
  }
  if (is_interrupted()) {
    turns_.vote(Vote::kInterrupted);
  }
  turns_.start();
}

Trainer::Turn Trainer::settle_turn(DataStream& data) {
  if (is_alone()) {
    return is_evaluation_cut() ? Turn::kCut : data.loader().has_next() ? Turn::kGoOn : Turn::kEnd;
  }
  const Decision& decision = turns_.settle();
  if (decision.has(Vote::kInterrupted)) {
    cut_evaluation();
    return Turn::kCut;
  }
  return decision.has(Vote::kMoreData) ? Turn::kGoOn : Turn::kEnd;
}

// Before an evaluation, and on one rank at each of its batches.
bool Trainer::is_evaluation_cut() {
  if (!any_rank(is_interrupted())) {
    return false;
  }
  cut_evaluation();
  return true;
}

// An evaluation may take longer than whoever sends a signal waits. What it has not told yet is left
// undone, so that a run that had reached its end is stopped early after all.
void Trainer::cut_evaluation() {
  const std::string reason = interruption_text();
  is_cut_by_signal_ = true;
  if (!is_over_ || outcome_.code == ExitCode::kDone) {
    is_over_ = true;
    outcome_.code = ExitCode::kStopped;
    outcome_.reason = reason;
  }
}

}  // namespace tenon
