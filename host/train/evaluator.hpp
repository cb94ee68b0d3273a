// SPDX-License-Identifier: Apache-2.0
//
// Evaluations: of the whole evaluation sets, of test sets, of the next training window before it is
// trained on, and of windows paired with those of training; and the parameters of the best one.
// A signal cuts an evaluation at its next batch. What is cut is evaluated on resume.
// Invariants: the same parameters are not evaluated twice on the same sets; what is evaluated does
// not depend on the number of ranks; training's own metrics are not touched.
// Threads: the train thread; every rank calls the same functions.
#pragma once

#include "host/distributed/collectives/agreement.hpp"
#include "host/metrics/metric_book.hpp"
#include "host/metrics/progress.hpp"
#include "host/metrics/sink_list.hpp"
#include "host/train/best_state.hpp"
#include "host/train/eval_set.hpp"
#include "host/train/evaluation_losses.hpp"
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
#include <string>
#include <vector>

namespace tenon {

class Evaluator final : public WithStateFields<Evaluator> {
 public:
  // All are borrowed.
  struct Parts {
    const EvalRecipe& recipe;
    const RunState& state;
    std::vector<EvalSet> sets;
    std::vector<EvalSet> test_sets;
    DataStream& train_data;
    Collective& collective;
    ModelRunner& model;
    LossSet& losses;
    MetricSet& metric_set;
    ForwardPass& forward_pass;
    MetricBook& metrics;
    SinkList& sinks;
    Progress& progress;
    BestState* best = nullptr;  // null if the best parameters are not kept
    LoopEvents& events;
    StepValues& step;
    LoopRequests& requests;
    StopConditions& stop;
    StepLog& log;
  };
  explicit Evaluator(Parts parts);

  // ---- evaluations ----

  // On all sets, unless these parameters have been evaluated.
  void evaluate();
  void evaluate_test_sets();
  // On the open window of training, with the parameters from before it: progressive validation.
  void evaluate_next_window();
  // On the windows that are paired with the training window of this label.
  void evaluate_paired_windows(const std::string& label);
  // All that is due before the open window is trained on; in a resumed run, what it has missed.
  // False if a resumed run is in the middle of the window.
  bool evaluate_before_window(bool is_resumed, const std::string& label);
  bool is_paired(const EvalSet& set) const;

  // ---- evaluations that a signal has cut ----

  // In a resumed run: those that were due when it was saved, except before a window.
  void evaluate_missed(const std::string& last_window);

  // By the recipe's schedule.
  bool is_due(RunBoundary boundary) const;

  // ---- results ----

  // The step whose parameters were evaluated last.
  std::optional<uint64_t> evaluated_step() const;
  // The last value of each metric of evaluations.
  const std::map<std::string, double>& last_metrics() const { return last_metrics_; }
  // Ends training with the best parameters: says whether they were restored. Then blocks must be
  // shown them.
  bool restore_best();
  const std::optional<BestEvaluation>& best() const { return best_; }

  // After a load: records of this step that were written before, and stay.
  uint64_t saved_records() const { return saved_records_; }
  // After a roll-back: evaluates what was due when the state was saved.
  void resume_after_roll_back();

  template <class Self, class Fields>
  static void describe(Self& self, Fields& f) {
    f.field("evaluated", self.is_evaluated_);
    f.field("evaluated_step", self.evaluated_step_);
    f.field("due/all", self.missed_.all);
    f.field("due/next_window", self.missed_.next_window);
    f.field("due/with_window", self.missed_.paired_windows);
    f.field("last_figures", self.last_metrics_);
    // Records of a cut evaluation come again.
    f.computed(
        "records_of_step",
        [&] { return self.num_records() - self.num_cut_records_; },
        [&](auto records) { self.saved_records_ = records; });
    EvaluationLosses::describe(self.series_, f);
  }

 private:
  enum class BatchVote { kMore, kEnd, kCut };
  using EvaluateAll = std::function<bool(std::string& line)>;

  uint64_t num_records() const { return parts_.sinks.num_of_step(parts_.state.step); }
  std::optional<MetricRecord> run(const std::string& family,
                                  const std::string& window,
                                  const EvaluateAll& evaluate_all);
  MetricRecord write_record(const std::string& family,
                            const std::string& window,
                            const std::string& line);
  bool evaluate_sets(const std::vector<EvalSet>& sets, std::string& line);
  bool evaluate_set(const EvalSet& set, std::string& line);
  bool evaluate_windows(DataStream& data, const std::string& prefix, EvaluationSums& sums);
  bool evaluate_open_window(DataStream& data, const std::string& prefix, std::string& line);
  bool evaluate_window(DataStream& data, EvaluationSums& sums);
  void evaluate_batch(DataStream& data, EvaluationSums& sums);
  bool record(const std::string& prefix,
              const EvaluationSums& sums,
              const std::string& series,
              std::string& line);
  void start_vote(DataStream& data);
  BatchVote finish_vote(DataStream& data);

  // What was to be evaluated when a signal came.
  struct Missed {
    bool all = false;             // of data.eval
    bool next_window = false;     // the open window, before its first step
    bool paired_windows = false;  // the windows beside it
  };

  Parts parts_;
  Agreement votes_;  // of an evaluation's batches
  Missed missed_;
  bool is_evaluated_ = false;
  uint64_t evaluated_step_ = 0;  // if is_evaluated_, else 0
  EvaluationLosses series_;
  std::map<std::string, double> last_metrics_;
  uint64_t num_cut_records_ = 0;  // of the evaluation that was cut
  uint64_t saved_records_ = 0;
  std::optional<BestEvaluation> best_;  // once it is restored
};

}  // namespace tenon
