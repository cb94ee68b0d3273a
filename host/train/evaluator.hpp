// SPDX-License-Identifier: Apache-2.0
//
// Evaluates on evaluation sets, on test sets, on the next training window before training on it,
// and on windows paired with training windows. Restores the parameters of the best evaluation. A
// signal interrupts an evaluation at its next batch. The resumed run repeats the interrupted
// evaluation.
// Invariants: the same parameters are not evaluated twice on the same sets; the evaluated data does
// not depend on the number of ranks; training metrics are not changed.
// Threads: the train thread; every rank calls the same functions.
#pragma once

#include "host/distributed/collectives/rank_groups.hpp"
#include "host/metrics/metric_book.hpp"
#include "host/metrics/progress.hpp"
#include "host/metrics/sink_list.hpp"
#include "host/train/batch_evaluator.hpp"
#include "host/train/best_state.hpp"
#include "host/train/eval_set.hpp"
#include "host/train/evaluation_losses.hpp"
#include "host/train/evaluation_values.hpp"
#include "host/train/forward_pass.hpp"
#include "host/train/loop_events.hpp"
#include "host/train/loop_requests.hpp"
#include "host/train/run_state/outcome.hpp"
#include "host/train/run_state/run_boundary.hpp"
#include "host/train/state_fields.hpp"
#include "host/train/step_log.hpp"
#include "host/train/stop_conditions.hpp"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

class Evaluator final : public WithStateFields<Evaluator> {
 public:
  // All are borrowed.
  Evaluator(RunServices& run,
            const RunState& state,
            LoopEvents& events,
            HookView& view,
            LoopRequests& requests,
            StopConditions& stop,
            StepLog& log,
            ForwardPass& forward_pass);

  // Tries the first batch of each evaluation and test set, before the first step. Adds the metrics
  // that plugins add to `names`. Returns false if a set has nothing to try yet.
  // Errors  as BatchEvaluator::try_first_batch
  bool try_sets(std::set<std::string>& names);
  // Sets what all ranks call before an evaluation that failed on any of them throws. `is_best`: the
  // parameters are those that restore_best() has restored.
  void on_failure(std::function<void(bool is_best)> call) { on_failure_ = std::move(call); }

  // ---- evaluations ----

  // Evaluates on all sets, unless these parameters have been evaluated.
  void evaluate();
  void evaluate_test_sets();
  // Evaluates on the open training window before training on it: progressive validation.
  void evaluate_next_window();
  // Evaluates on the windows that are paired with the training window with this label.
  void evaluate_paired_windows(const std::string& label);
  // Runs the evaluations that are due before training on the open window; in a resumed run, only
  // those that it missed. Returns false if a resumed run missed none, since it resumes in the
  // middle of the window.
  bool evaluate_before_window(bool is_resumed, const std::string& label);
  bool is_paired(const EvalSet& set) const;

  // ---- interrupted evaluations ----

  // After a load or a rollback: runs the evaluations that were due when the state was saved, except
  // those due before a window.
  void evaluate_missed(const std::string& last_window);

  // Returns true if an evaluation is due by the recipe's schedule.
  bool is_due(RunBoundary boundary) const;

  // ---- results ----

  // The step whose parameters were evaluated last, on whole sets of data.eval or on their windows.
  std::optional<uint64_t> evaluated_step() const;
  // After a load: the saved evaluation was of other sets, losses or metrics, so that it does not
  // count as one of these parameters.
  void forget_evaluated();
  // The last value of each evaluation metric.
  const std::map<std::string, double>& last_metrics() const { return last_metrics_; }
  // Restores the best parameters at the end of training. Returns true if they replaced the current
  // ones; the caller must then publish them to the blocks.
  bool restore_best();
  // The best evaluation so far; none if none is kept.
  std::optional<BestEvaluation> best() const;

  // After a load: number of records of this step that sinks keep from before the save.
  uint64_t saved_records() const { return saved_records_; }
  // After a rollback: drops missed evaluations of windows, since these windows are over.
  void resume_after_roll_back();

  template <class Self, class Fields>
  static void describe(Self& self, Fields& f) {
    f.field("evaluated", self.is_evaluated_);
    f.field("evaluated_step", self.evaluated_step_);
    f.field("due/all", self.missed_.all);
    f.field("due/next_window", self.missed_.next_window);
    f.field("due/with_window", self.missed_.paired_windows);
    f.field("last_figures", self.last_metrics_);
    // Excludes records of an interrupted evaluation, since the resumed run writes them again.
    f.computed(
        "records_of_step",
        [&] { return self.num_records() - self.num_cut_records_; },
        [&](auto records) { self.saved_records_ = records; });
    EvaluationLosses::describe(self.series_, f);
  }

 private:
  using EvaluateAll = std::function<bool(std::string& line)>;

  uint64_t num_records() const { return run_.report.sinks.num_of_step(state_.step); }
  void evaluate_all_sets();
  std::optional<MetricRecord> run(const std::string& family,
                                  const std::string& window,
                                  const EvaluateAll& evaluate_all);
  MetricRecord write_record(const std::string& family,
                            const std::string& window,
                            const std::string& line);
  bool evaluate_sets(const std::vector<EvalSet>& sets, std::string& line);
  bool evaluate_set(const EvalSet& set, std::string& line);
  void report_over_long(const EvalSet& set) const;
  bool evaluate_windows(DataStream& data, const std::string& prefix, EvaluationSums& sums);
  bool evaluate_open_window(DataStream& data, const std::string& prefix, std::string& line);
  bool record(const std::string& prefix,
              const EvaluationSums& sums,
              const std::string& series,
              std::string& line);
  void end_failed();

  // Evaluations that were due, but not completed, when a signal arrived.
  struct Missed {
    bool all = false;             // on all sets of data.eval
    bool next_window = false;     // on the open window, before its first step
    bool paired_windows = false;  // on the windows paired with it
  };

  RunServices& run_;
  const RunState& state_;
  LoopEvents& events_;
  StepValues& step_;
  LoopRequests& requests_;
  StopConditions& stop_;
  StepLog& log_;
  BatchEvaluator batches_;
  std::function<void(bool is_best)> on_failure_;  // may be empty
  Missed missed_;
  bool is_evaluated_ = false;
  uint64_t evaluated_step_ = 0;          // 0 unless is_evaluated_
  std::optional<uint64_t> window_step_;  // of an evaluation of single windows since then
  EvaluationLosses series_;
  std::map<std::string, double> last_metrics_;
  uint64_t num_cut_records_ = 0;  // of the interrupted evaluation
  uint64_t saved_records_ = 0;
  bool is_best_restored_ = false;  // by restore_best()
};

}  // namespace tenon
