// SPDX-License-Identifier: Apache-2.0
#include "host/train/batch_evaluator.hpp"

#include "host/data/batch_builder.hpp"
#include "host/device/random_state.hpp"
#include "host/metrics/metric_book.hpp"
#include "host/metrics/metrics_service.hpp"
#include "host/text/formatted.hpp"
#include "host/train/components/run_failure.hpp"
#include "host/train/rank_decisions.hpp"
#include "host/train/same_data.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace tenon {
namespace {

// Streams do not say which source a sample comes from.
bool is_mix(const DataSource& source) {
  return !source.parts().empty() && source.info().style == DatasetStyle::kMap;
}

// "eval/near" of the prefix "eval/near/".
std::string set_name(const std::string& prefix) {
  return prefix.ends_with('/') ? prefix.substr(0, prefix.size() - 1) : prefix;
}

}  // namespace

BatchEvaluator::BatchEvaluator(RunServices& run,
                               const RunState& state,
                               LoopEvents& events,
                               StepValues& step,
                               StopConditions& stop,
                               ForwardPass& forward_pass)
    : run_(run),
      state_(state),
      events_(events),
      step_(step),
      stop_(stop),
      forward_pass_(forward_pass),
      votes_(run.ranks.groups.all()) {}

bool BatchEvaluator::evaluate(DataStream& data, const std::string& prefix, EvaluationSums& sums) {
  events_.fire(TENON_EVENT_BEFORE_WINDOW);
  start_vote(data);
  BatchVote vote = finish_vote(data);
  while (vote == BatchVote::kMore) {
    evaluate_batch({data, prefix, sums.microbatch, data.loader().position().cursor}, sums);
    vote = finish_vote(data);
  }
  run_.model.finish_messages();
  events_.event().microbatch = 0;
  has_failed_ = has_failed_ || any_rank(run_.ranks.groups.all(), failure_.has_value());
  const bool is_complete = vote != BatchVote::kCut && !has_failed_;
  if (is_complete && !data.has_reached_limit()) {
    events_.fire(TENON_EVENT_OUT_OF_DATA);
  }
  events_.fire(TENON_EVENT_AFTER_WINDOW);
  return is_complete;
}

void BatchEvaluator::rethrow() const {
  if (failure_.has_value()) {
    throw Error(*failure_);
  }
}

// The vote on the next batch runs while this batch is evaluated.
void BatchEvaluator::evaluate_batch(const EvaluatedBatch& at, EvaluationSums& sums) {
  DataStream& data = at.data;
  Microbatch microbatch{.batch = empty_batch(data.source().info().schema),
                        .state = &run_.model.state()};
  hold(at, [&] {
    if (auto next = data.loader().next(); next.has_value()) {
      microbatch.batch = std::move(*next);
    }
  });
  microbatch.is_by_source = run_.recipe().train.loss_by_source && is_mix(data.source());
  start_vote(data);
  events_.event().microbatch = sums.microbatch;
  const CallPoint point{state_.step, static_cast<uint32_t>(sums.microbatch), false};
  step_.batch = &microbatch.batch;
  step_.state = microbatch.state;
  events_.fire(TENON_EVENT_AFTER_DATA);
  const auto forward = [&] { forward_pass_.run_model(microbatch, point); };
  bool has_outputs = true;
  if (run_.role().is_alone()) {
    has_outputs = hold(at, forward);
  } else {  // the ranks compute together: the others do not get past it
    forward();
  }
  const auto losses = [&] {
    forward_pass_.run_losses(microbatch, point, [&] {
      run_.model.metrics.evaluate(*microbatch.state, microbatch.batch, point);
      sums.add(microbatch.sums, microbatch.counts);
      sums.add_sources(microbatch.by_source, data.source().parts());
    });
  };
  // Losses and metrics are collective calls.
  if (run_.model.sequences != nullptr || run_.model.tensor != nullptr) {
    losses();
  } else if (has_outputs) {
    hold(at, losses);
  }
  run_.model.runner.clear(run_.model.state());
  step_.batch = nullptr;
  step_.state = nullptr;
  ++sums.microbatch;
}

// Returns false if `work` throws; keeps the first error.
bool BatchEvaluator::hold(const EvaluatedBatch& batch, const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const std::exception& error) {
    if (!failure_.has_value()) {
      failure_ = in_context(run_failure(error), batch);
    }
    return false;
  }
}

bool BatchEvaluator::try_first_batch(const EvalSet& set, std::set<std::string>& names) {
  DataStream& data = *set.data;
  MetricBook scratch;
  const MetricsInUse in_use(scratch);
  const MetricPrefix metrics(set.prefix);
  const RandomStateGuard random;
  StateTree position;
  const bool has_position = data.epoch().has_value();
  if (has_position) {
    data.snapshot(position, "");
    data.close_window();  // no read may run while the trial resets the source
  }
  LoaderOptions options = data.options();
  options.max_batches = 1;
  options.num_threads = 0;
  options.prefetch = 1;
  bool is_tried = false;
  {
    DataStream trial(data.source(), options);
    trial.begin_epoch(0);
    is_tried = next_window_together(trial, run_.ranks.groups.all()) == NextWindow::kOpen;
    if (is_tried) {
      const EvaluatedBatch at{trial, set.prefix, 0};
      try {
        auto next = trial.loader().has_next() ? trial.loader().next() : std::nullopt;
        Microbatch microbatch{
            .batch = next.has_value() ? std::move(*next) : empty_batch(data.source().info().schema),
            .state = &run_.model.state()};
        run_quietly(microbatch);
      } catch (const std::exception& error) {
        throw in_context(run_failure(error), at);
      }
    }
  }
  if (has_position) {
    data.load(position, "");
  }
  for (const auto& [name, value] : scratch.close(state_.step).values) {
    names.insert(name);
  }
  return is_tried;
}

void BatchEvaluator::run_quietly(Microbatch& microbatch) {
  const CallPoint point{state_.step, 0, false};
  run_.model.metrics.begin_evaluation();
  forward_pass_.run_quietly(microbatch, point, [&] {
    run_.model.metrics.evaluate(*microbatch.state, microbatch.batch, point);
  });
  run_.model.metrics.drop_evaluation();
  run_.model.runner.clear(run_.model.state());
  run_.model.finish_messages();
}

Error BatchEvaluator::in_context(const Error& error, const EvaluatedBatch& batch) {
  run_.model.runner.clear(run_.model.state());
  std::string where = set_name(batch.prefix) + " (" + batch.data.source().name() + ")";
  if (!batch.data.window_label().empty()) {
    where += ", window " + batch.data.window_label();
  }
  where += formatted(", batch {}", batch.number + 1);
  if (const std::optional<int64_t> sample = failing_sample(batch)) {
    const std::optional<Window> window = batch.data.window();
    where += formatted(", sample {} (counted from 0)", *sample) +
             place_note(batch.data.source(), window ? &*window : nullptr, *sample);
  }
  return error.with_context("evaluation on " + where);
}

// Evaluates the samples of a batch one by one. Returns the number of the first that fails; none if
// samples have no numbers, or none fails alone.
std::optional<int64_t> BatchEvaluator::failing_sample(const EvaluatedBatch& batch) {
  DataSource& source = batch.data.source();
  const bool is_numbered = source.info().style == DatasetStyle::kMap &&
                           !source.info().has_own_order && source.packed() == nullptr;
  if (!is_numbered || !run_.role().is_alone() || !batch.data.epoch().has_value()) {
    return std::nullopt;
  }
  LoaderOptions options = batch.data.options();
  options.max_batches = options.batch_size;
  options.batch_size = 1;
  options.samples_per_step = 0;
  options.num_threads = 0;
  options.prefetch = 1;
  int64_t sample = batch.cursor;
  try {
    Loader loader(source, batch.data.window(), *batch.data.epoch(), options, {.cursor = sample});
    for (; loader.has_next(); ++sample) {
      Microbatch microbatch{.batch = std::move(*loader.next()), .state = &run_.model.state()};
      run_quietly(microbatch);
    }
  } catch (const std::exception&) {
    run_.model.metrics.drop_evaluation();
    run_.model.runner.clear(run_.model.state());
    return sample;
  }
  return std::nullopt;
}

// Ranks vote on the next batch while they evaluate the current one. All ranks continue as long as
// any rank has a batch, so the evaluated data does not depend on the number of ranks. A single rank
// needs no vote.
void BatchEvaluator::start_vote(DataStream& data) {
  if (run_.role().is_alone()) {
    return;
  }
  const std::optional<int64_t> num_left = data.loader().num_batches_left();
  const bool has_more = num_left.has_value() ? *num_left > 0 : data.loader().has_next();
  if (has_more && !failure_.has_value()) {  // a loader that has failed fails at each further read
    votes_.vote(Vote::kMoreData);
  }
  stop_.vote(votes_);
  votes_.start();
}

BatchEvaluator::BatchVote BatchEvaluator::finish_vote(DataStream& data) {
  if (run_.role().is_alone()) {
    if (failure_.has_value() || stop_.cuts_evaluation()) {
      return BatchVote::kCut;
    }
    return data.loader().has_next() ? BatchVote::kMore : BatchVote::kEnd;
  }
  const Decision& decision = votes_.resolve();
  if (decision.has(Vote::kInterrupted)) {
    stop_.cut_evaluation();
    return BatchVote::kCut;
  }
  return decision.has(Vote::kMoreData) ? BatchVote::kMore : BatchVote::kEnd;
}

}  // namespace tenon
