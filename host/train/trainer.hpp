// SPDX-License-Identifier: Apache-2.0
//
// The training loop: run, epoch, window and step, with their events. The code follows the list of
// events in docs/architecture.md from top to bottom. It depends on kinds of plugins, never on a
// particular plugin.
// Invariants: an accumulation never crosses a window; every before_ event has its after_ event,
// unless an error ends the run or, for after_evaluate, a signal interrupts the evaluation; `end`
// always fires once.
// Threads: owned and driven by the train thread.
#pragma once

#include "host/train/checkpoint_driver.hpp"
#include "host/train/evaluator.hpp"
#include "host/train/finite_check.hpp"
#include "host/train/hook_view.hpp"
#include "host/train/loop_events.hpp"
#include "host/train/loop_requests.hpp"
#include "host/train/roll_back.hpp"
#include "host/train/run_loader.hpp"
#include "host/train/run_services.hpp"
#include "host/train/run_state/outcome.hpp"
#include "host/train/state_fields.hpp"
#include "host/train/step_log.hpp"
#include "host/train/stop_conditions.hpp"
#include "host/train/train_step.hpp"
#include "host/train/whole_state.hpp"
#include "host/train/window_feed.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

class Trainer final : public WithStateFields<Trainer> {
 public:
  // `run` is borrowed.
  explicit Trainer(RunServices& run);

  // Runs from before_init to end. Returns errors in the outcome; throws nothing.
  Outcome run();

  // Adds the whole state of the run to `tree` (names in run_state_names.hpp). Call it only at a
  // boundary. It waits for results from the device, and changes nothing else.
  void snapshot(StateTree& tree) { whole_.snapshot(tree); }
  const RunState& state() const { return position_.run; }

  template <class Self, class Fields>
  static void describe(Self& self, Fields& f) {
    f.field("step", self.position_.run.step);
    f.field("updates", self.position_.run.updates);
    f.field("epochs", self.position_.run.epochs, kKeptOnRollBack);
    f.field("windows", self.position_.run.windows, kKeptOnRollBack);
    f.field("samples", self.position_.run.samples, kNotNegative);
    f.field("tokens", self.position_.run.tokens, kNotNegative);
    f.computed(  // kNoStep is saved as -1
        "epoch_step",
        [&] { return static_cast<int64_t>(self.position_.epoch_step); },
        [&](auto step) { self.position_.epoch_step = static_cast<uint64_t>(step); });
    f.field("steps_in_window", self.position_.steps_in_window, kKeptOnRollBack | kNotNegative);
  }

 private:
  // Position of the loop.
  struct Position {
    RunState run;
    uint64_t epoch_step = 0;      // the last step before this epoch
    int64_t steps_in_window = 0;  // steps begun in the open window
    bool resumes_epoch = false;   // the loaded state is in the middle of an epoch
    bool resumes_window = false;  // the loaded state is in the middle of a window
  };

  // The loop, outermost first.
  void train();
  void initialize();
  void load();
  void evaluate_only();
  void finish_training();
  void run_epoch();
  void begin_epoch(bool is_resumed);
  bool run_windows();
  void end_epoch(bool is_resumed);
  void run_window();
  void begin_window(bool is_resumed);
  bool run_steps();
  void end_window();
  bool run_step();
  void begin_step();
  void vote();
  void end_step(const Decision& decision, bool has_data);
  void log_if_due(bool has_data);
  void roll_back();
  bool is_window_full() const;
  void at_boundary(RunBoundary boundary);
  void save_at_end();

  // Loading.
  void take_over(const StateTree& tree);
  void take_position(const StateTree& tree);
  void load_data(const StateTree& tree);
  void report_restored(StateRestored::How how, const std::string& address);
  void show_loaded();
  void reload_if_due(ReloadPoint point, uint64_t count);

  // Reporting.
  void fire_and_sync(uint32_t event);
  void report_failure(Error failure, Outcome& outcome);
  void report_end(bool has_failed, Outcome& outcome);

  RunServices& run_;
  Position position_;
  StopConditions stop_;
  LoopRequests requests_;
  GradientStatistics gradients_;
  FiniteCheck finite_check_;
  StepLog log_;
  HookView view_;
  LoopEvents events_;
  WindowFeed feed_;
  TrainStep step_;
  Evaluator evaluator_;
  WholeState whole_;
  CheckpointDriver checkpoints_;
  RollBack roll_back_;
  RunLoader loader_;
};

}  // namespace tenon
