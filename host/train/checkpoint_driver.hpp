// SPDX-License-Identifier: Apache-2.0
//
// Decides when the loop saves checkpoints and makes exports: at boundaries, on request, and at the
// end. Also tracks saves that run concurrently with training. Checkpointing writes the state to
// storage. Every function does nothing if the recipe saves nothing.
// Invariant: all ranks save the same state at the same boundary; at most one save is under way.
// Threads: the train thread; every rank calls the same functions.
#pragma once

#include "host/distributed/collectives/agreement.hpp"
#include "host/distributed/collectives/rank_groups.hpp"
#include "host/metrics/metric_book.hpp"
#include "host/metrics/progress.hpp"
#include "host/process/signal_watch.hpp"
#include "host/train/evaluation_values.hpp"
#include "host/train/evaluator.hpp"
#include "host/train/loop_events.hpp"
#include "host/train/loop_requests.hpp"
#include "host/train/resume/checkpointing.hpp"
#include "host/train/run_state/outcome.hpp"
#include "host/train/run_state/run_boundary.hpp"
#include "host/train/stop_conditions.hpp"
#include "host/train/whole_state.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

class CheckpointDriver {
 public:
  // All are borrowed.
  CheckpointDriver(RunServices& run,
                   const RunState& state,
                   WholeState& whole,
                   LoopEvents& events,
                   LoopRequests& requests,
                   StopConditions& stop,
                   const Evaluator& evaluator);

  bool is_on() const { return run_.data.checkpoints != nullptr; }
  // Requires is_on().
  Checkpointing& checkpoints() { return *run_.data.checkpoints; }

  // ---- saves ----

  // Makes the checkpoint and the exports that are due at this boundary.
  void save_if_due(RunBoundary boundary);
  void save(RunBoundary boundary);
  // Saves what is trained so far, unless it is saved already, before an evaluation ends the run
  // with an error. `is_changed`: the parameters are not those of the last step, and are not saved.
  void save_before_failure(bool is_changed);
  // Makes the exports that were due at boundary `at` of the resumed checkpoint and do not exist.
  void export_missed(const std::string& at);
  // Makes the exports that are due at the end of training. `is_changed`: the parameters are not
  // those of the last step.
  void export_at_end(bool is_changed);
  // Saves the initial parameters instead of training.
  // Errors  checkpoint.failed
  void save_initial();

  // ---- saves under way ----

  // Adds this rank's votes about saves to the votes of a step.
  void vote(Agreement& votes);
  // Called once per step. Completes a save when all ranks have written their share.
  // Errors  checkpoint.failed
  void sync(const Decision& decision);
  // Waits for all saves under way; after a signal, at most for the recipe's grace period.
  // Errors  checkpoint.failed if the recipe stops the run when a save fails
  void finish();
  // Checks that the last checkpoint and the last exports of the run exist, except saves that the
  // end of the grace period of a signal has cut off. Every rank calls it, after finish().
  // Errors  checkpoint.failed
  void check_last() const;
  // Waits for all saves under way, without a time limit. Returns the first failure of any rank.
  std::optional<Error> finish_all();
  void add_counts(Outcome& outcome) const;

 private:
  // Errors  run.dir_lost on all ranks
  void check_folder();
  void save_forms(RunBoundary boundary, const SaveForms& forms);
  void save_together(RunBoundary boundary, const SaveForms& forms);
  void prepare();
  void report();
  std::optional<std::chrono::duration<double>> grace_left();
  [[noreturn]] void stop_for_failure();

  RunServices& run_;
  const RunState& state_;
  WholeState& whole_;
  LoopEvents& events_;
  LoopRequests& requests_;
  StopConditions& stop_;
  const Evaluator& evaluator_;
  bool is_prepared_ = false;
  bool is_end_saved_ = false;  // the last checkpoint of this process says that the run is over
  std::optional<std::chrono::steady_clock::time_point> grace_until_;
};

}  // namespace tenon
