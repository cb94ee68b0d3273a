// SPDX-License-Identifier: Apache-2.0
//
// The conditions that end a run: its length in steps, windows, epochs, tokens or minutes; signals;
// the kill switch; stop requests of hooks. It also keeps the run's clock.
// Invariant: the first reason counts; only the interruption of an evaluation replaces it.
// Threads: the train thread.
#pragma once

#include "host/distributed/collectives/agreement.hpp"
#include "host/distributed/collectives/group.hpp"
#include "host/error/exit_code.hpp"
#include "host/journal/run_state.hpp"
#include "host/process/signal_watch.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/state_fields.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace tenon {

class StopConditions final : public WithStateFields<StopConditions> {
 public:
  // All are borrowed; `signals` may be null.
  StopConditions(const TrainRecipe& train,
                 const RunState& state,
                 Group& ranks,
                 const SignalWatch* signals);

  bool is_over() const { return is_over_; }
  ExitCode code() const { return code_; }
  const std::string& reason() const { return reason_; }
  // True once a signal or the kill switch has ended the run, or interrupted an evaluation.
  bool is_interrupted_run() const { return is_interrupted_run_; }

  // What is left to do in this process, by end_if_complete() and end_without_new_window(): no
  // training, since there is no new window or the run is complete; or nothing at all, such as
  // evaluations and exports of the end.
  enum class Complete { kNo, kNothingNew, kTrained, kFinished };
  Complete complete() const { return complete_; }

  // Ends the run, unless it is already over.
  void end(ExitCode code, std::string reason);

  // ---- the run's clock ----

  void start_clock() { start_ = std::chrono::steady_clock::now(); }
  // Units  seconds since start_clock(), including the time of the run that this run resumes
  double seconds() const;
  bool is_time_up() const;

  // ---- the length of the run ----

  // This process runs the steps after `step`.
  void start_after(uint64_t step) { first_step_ = step; }
  uint64_t first_step() const { return first_step_; }
  // Ends the run if it has reached its run length, or the step at which the recipe exits.
  void check_run_length();
  // Ends a run that has just been resumed, if nothing is left to train: it has reached its run
  // length, its time or exit_at_step, or a hook had ended it. `has_same_end`: its run length and
  // its hooks are those with which it was saved; otherwise the end that a hook requested is void.
  // `finished_step`: where an earlier start with the same recipe has done all that is left after
  // training; none if there was none. Called by every rank.
  void end_if_complete(bool has_same_end, std::optional<uint64_t> finished_step);
  // Before a rollback: continues the run if only its run length has ended it.
  void withdraw_run_length();
  // Errors  data.no_tokens if the length is given in tokens and the data counts none
  void check_tokens(const std::string& dataset) const;

  // ---- signals, the clock and hooks ----

  // Stores the reason for which a hook of this rank asks to stop. The vote is cast separately.
  void note_stop_request(const std::string& reason) { stop_reason_ = reason; }
  // Returns true if this rank has received a signal, or sees the kill switch.
  bool is_interrupted() const;
  // Returns why: "received SIGTERM"; "" if this rank is not interrupted.
  std::string own_interruption() const;
  // Ends the run before its first step if a signal has arrived on any rank. Called by every rank.
  void end_on_early_signal();
  // Adds this rank's vote if it is interrupted.
  void vote(Agreement& agreement) const;
  // Ends the run if a hook, a signal or the kill switch asks for it. Called by every rank.
  void act_on(const Decision& decision);
  // Ends the run if its time is up on any rank.
  void check_clock(const Decision& decision);
  // Ends the run while it waits for a window that does not exist yet. Called by every rank.
  void end_waiting();
  // Ends a run that trains on new windows, since there is no new one after `last` (a label).
  void end_without_new_window(const std::string& last);
  // If any rank is interrupted, calls cut_evaluation() and returns true. Called by every rank.
  bool cuts_evaluation();
  // Ends the run as stopped early, even if it had reached its end. Called by every rank.
  void cut_evaluation();

  template <class Self, class Fields>
  static void describe(Self& self, Fields& f) {
    f.computed(
        "seconds",
        [&] { return self.seconds(); },
        [&](auto seconds) {
          self.start_ = std::chrono::steady_clock::now() -
                        std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                            std::chrono::duration<double>(seconds));
        },
        kKeptOnRollBack | kOwnOfRank | kNotNegative);
    f.field("stop_reason", self.stop_reason_, kOwnOfRank);
    // The reason if a hook has ended the run. Equal on all ranks.
    f.computed(
        "ended",
        [&] { return self.is_over_by_hook_ ? self.reason_ : std::string(); },
        [&](auto reason) { self.saved_end_ = std::move(reason); },
        kKeptOnRollBack | kOptional);
  }

 private:
  int signal_received() const;  // 0: none
  void end_in_time();

  const TrainRecipe& train_;
  const RunState& state_;
  Group& ranks_;
  const SignalWatch* signals_;

  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  uint64_t first_step_ = 0;  // the last step before this process
  bool is_over_ = false;
  bool is_over_by_length_ = false;
  bool is_over_by_hook_ = false;
  bool is_interrupted_run_ = false;
  Complete complete_ = Complete::kNo;
  ExitCode code_ = ExitCode::kDone;
  std::string reason_;
  std::string stop_reason_;  // of the hook that asks to stop
  // Why the loaded run was over; "" if it was not. Null if the checkpoint does not say.
  std::optional<std::string> saved_end_;
};

}  // namespace tenon
