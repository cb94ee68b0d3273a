// SPDX-License-Identifier: Apache-2.0
//
// When the loop saves checkpoints and makes exports: at boundaries, on request, at the end, and
// what becomes of saves that run beside training. How a state gets to a disk is Checkpointing's.
// Every function does nothing if the recipe saves nothing.
// Invariant: ranks save the same state at the same boundary; at most one save is under way.
// Threads: the train thread; every rank calls the same functions.
#pragma once

#include "host/distributed/collectives/agreement.hpp"
#include "host/metrics/metric_book.hpp"
#include "host/metrics/progress.hpp"
#include "host/train/loop_events.hpp"
#include "host/train/loop_requests.hpp"
#include "host/train/resume/checkpointing.hpp"
#include "host/train/run_state/outcome.hpp"
#include "host/train/run_state/run_boundary.hpp"
#include "host/train/signal_watch.hpp"
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
  // What checkpoints say of evaluations.
  struct Evaluated {
    std::optional<uint64_t> step;           // the last one
    std::map<std::string, double> metrics;  // the last value of each
  };
  // All are borrowed.
  struct Parts {
    Checkpointing* checkpoints = nullptr;  // null if the recipe saves nothing
    const RunState& state;
    WholeState& whole;
    // Entries whose memory is set aside before the first save.
    std::vector<WholeState::Part> prepared;
    MetricBook& metrics;
    Progress& progress;
    Collective& collective;
    const SignalWatch* signals = nullptr;
    LoopEvents& events;
    LoopRequests& requests;
    StopConditions& stop;
    std::function<Evaluated()> evaluated;
  };
  explicit CheckpointDriver(Parts parts) : parts_(std::move(parts)) {}

  bool is_on() const { return parts_.checkpoints != nullptr; }
  // If is_on().
  Checkpointing& checkpoints() { return *parts_.checkpoints; }

  // ---- saves ----

  // Saves and exports what is due at this boundary.
  void save_if_due(RunBoundary boundary);
  void save(RunBoundary boundary);
  // Exports that were due at the boundary `at` of the checkpoint that the run resumes from.
  void export_missed(const std::string& at);
  // Exports of what training has ended with; `is_changed` if these are not the last parameters.
  void export_at_end(bool is_changed);
  // In place of training.  Errors  checkpoint.failed
  void save_initial();

  // ---- saves that are under way ----

  // Adds what this rank knows of saves to the votes of a step.
  void vote(Agreement& votes);
  // Once a step: finishes what all ranks have written.  Errors  checkpoint.failed
  void sync(const Decision& decision);
  // Waits for all, as long as a signal allows.
  // Errors  checkpoint.failed if the recipe stops a run for it
  void finish();
  // Waits for all, however long it takes. The first failure of any rank.
  std::optional<Error> finish_all();
  void add_counts(Outcome& outcome) const;

 private:
  void save_forms(RunBoundary boundary, const SaveForms& forms);
  void prepare();
  void report();
  std::optional<std::chrono::duration<double>> grace_left();
  [[noreturn]] void stop_for_failure();

  Parts parts_;
  bool is_prepared_ = false;
  std::optional<std::chrono::steady_clock::time_point> grace_until_;
};

}  // namespace tenon
