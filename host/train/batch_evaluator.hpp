// SPDX-License-Identifier: Apache-2.0
//
// Evaluates the batches of a window: forward, losses and metrics, with their events. An error that
// a batch causes ends the evaluation on all ranks, so that the run can save its state before it
// fails. Also tries the first batch of a set, before the first step.
// Invariants: the evaluated data does not depend on the number of ranks; a trial changes nothing
// that is saved, logged or trained with, and fires no events.
// Threads: the train thread; every rank calls the same functions.
#pragma once

#include "host/data/data_stream.hpp"
#include "host/distributed/collectives/agreement.hpp"
#include "host/distributed/collectives/rank_groups.hpp"
#include "host/error/error.hpp"
#include "host/train/eval_set.hpp"
#include "host/train/evaluation_losses.hpp"
#include "host/train/forward_pass.hpp"
#include "host/train/hook_view.hpp"
#include "host/train/loop_events.hpp"
#include "host/train/stop_conditions.hpp"

#include <functional>
#include <optional>
#include <set>
#include <string>

namespace tenon {

class BatchEvaluator {
 public:
  // All are borrowed.
  BatchEvaluator(RunServices& run,
                 const RunState& state,
                 LoopEvents& events,
                 StepValues& step,
                 StopConditions& stop,
                 ForwardPass& forward_pass);

  // Evaluates the rest of the open window, whose metrics have this prefix. Returns false if a
  // signal or an error has cut the evaluation short.
  bool evaluate(DataStream& data, const std::string& prefix, EvaluationSums& sums);

  // True on all ranks if a batch has failed on any rank.
  bool has_failed() const { return has_failed_; }
  // Throws the error of this rank, if it has failed. The other ranks learn of it when they wait for
  // this one.
  void rethrow() const;

  // Runs model, losses and metrics on the first batch of the set. The set keeps its position. Adds
  // the metrics that plugins add meanwhile to `names`. Returns false if the set has no window yet.
  // Errors  those of the plugins and of the data, with the set, and the sample if it is known
  bool try_first_batch(const EvalSet& set, std::set<std::string>& names);

 private:
  enum class BatchVote { kMore, kEnd, kCut };
  // A batch, for messages.
  struct EvaluatedBatch {
    DataStream& data;
    const std::string& prefix;
    uint64_t number = 0;  // in the evaluation
    int64_t cursor = 0;   // map style: its first sample in the window
  };

  void evaluate_batch(const EvaluatedBatch& batch, EvaluationSums& sums);
  bool hold(const EvaluatedBatch& batch, const std::function<void()>& work);
  void run_quietly(Microbatch& microbatch);
  Error in_context(const Error& error, const EvaluatedBatch& batch);
  std::optional<int64_t> failing_sample(const EvaluatedBatch& batch);
  void start_vote(DataStream& data);
  BatchVote finish_vote(DataStream& data);

  RunServices& run_;
  const RunState& state_;
  LoopEvents& events_;
  StepValues& step_;
  StopConditions& stop_;
  ForwardPass& forward_pass_;
  Agreement votes_;               // on the batches of an evaluation
  std::optional<Error> failure_;  // of this rank
  bool has_failed_ = false;
};

}  // namespace tenon
