// SPDX-License-Identifier: Apache-2.0
//
// Controls one run from start to end: joins the other ranks, watches plugins and ranks, checks the
// plan, makes the run folder, allocates the services, runs the loop, and reports. Decides the order
// of these stages and the handling of each failure. Invariants: after each stage, all ranks
// continue or none does. Errors that can be found without allocating are found before the run
// folder exists. A run with a folder leaves a summary in it. Threads: [main]; the watchdog and the
// rank monitor call back on their own threads.
#pragma once

#include "host/checkpoint/run_lock.hpp"
#include "host/distributed/collectives/together.hpp"
#include "host/distributed/collectives/world.hpp"
#include "host/error/error.hpp"
#include "host/journal/journal.hpp"
#include "host/metrics/run_folder.hpp"
#include "host/plugin/registry.hpp"
#include "host/plugin/watchdog.hpp"
#include "host/process/process.hpp"
#include "host/process/signal_watch.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/components/component_factory.hpp"
#include "host/train/run/rank_watch.hpp"
#include "host/train/run/run_checkpoints.hpp"
#include "host/train/run/run_context.hpp"
#include "host/train/run/run_platform.hpp"
#include "host/train/run/run_report.hpp"
#include "host/train/run_plan/run_plan.hpp"
#include "host/train/run_plan/run_request.hpp"
#include "host/train/run_services.hpp"
#include "host/train/run_state/outcome.hpp"
#include "host/train/run_state/published_state.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace tenon {

class RunSession {
 public:
  using Purpose = RunPlatform::Purpose;

  // Opens the device. Joins the other ranks, unless the purpose is a check. All arguments are
  // borrowed.
  //
  // Errors  those of RunPlatform and of World::join
  RunSession(const Recipe& recipe,
             PluginRegistry& registry,
             Process& process,
             const RunRequest& request,
             Purpose purpose);
  RunSession(const RunSession&) = delete;
  RunSession& operator=(const RunSession&) = delete;

  // Plans the run on this rank alone.
  //
  // Errors  those of plan_run
  void check();
  // Plans the run on all ranks, and checks that recipe, plugins and data are the same, and
  // that the model fits into memory.
  //
  // Errors  SharedFailure
  void check_with_all();
  // Makes the run folder, trains and writes the summary. Call once, after check_with_all. A signal
  // that has arrived already ends the run before its first step. `signals` is borrowed.
  //
  // Errors  any error before the folder exists; later errors are in the outcome
  Outcome train(const SignalWatch& signals);

  // What the run does now, for lines about signals. Any thread.
  std::string activity() { return watch_.activity().text(); }
  // Ends the process of a run that a signal asked to stop before its first step, and that is in a
  // call that does not return. Writes the summary if the run has a folder. Any thread.
  [[noreturn]] void end_start(const std::string& reason);

  // Closes the connections to the other ranks, which all end with this failure.
  void leave(const SharedFailure& failure);
  // Reports an error of this rank to the other ranks. Returns the error and exit code that this
  // rank ends with. For errors outside the loop.
  FailedEnd fail(const Error& error);

 private:
  class LoopOwner;
  using StuckWriter = std::function<bool(const Error& error, int code)>;

  void record_sources();
  RunReport make_report();
  RunFolder open_folder();
  RunFolder make_first_folder(int64_t& attempt);
  void watch_folder(const RunFolder& folder, const RunReport& report);
  bool is_stopped_already(const SignalWatch& signals);
  Outcome stopped_outcome(const SignalWatch& signals);
  Outcome allocate_and_run(const RunFolder& folder, const SignalWatch& signals);
  Outcome run_loop(const RunFolder& folder, const SignalWatch& signals);
  void export_rows(ModelServices& model);
  void leave_in_order(Outcome& outcome);
  void report_end(const RunFolder& folder, const RunReport& report, Outcome& outcome);
  void tell_stuck_to(StuckWriter writer, std::function<void(const std::string&)> write_stop = {});
  [[noreturn]] void end_stuck(const StuckCall& call);
  std::string summary_name() const;
  void dismiss_witness();
  std::string folder_problem(const RunFolder& folder) const;
  bool may_write_summary(const RunFolder& folder, Outcome& outcome) const;
  double seconds() const;
  bool is_first() const { return platform_.is_first(); }

  const Recipe& recipe_;
  Process& process_;
  const RunRequest& request_;
  std::optional<RunLock> lock_;  // on the run folder; released last
  const RunPlatform platform_;   // outlives all that computes
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  PublishedState published_;
  std::mutex stuck_mutex_;
  StuckWriter write_stuck_summary_;  // empty while there is no run folder
  std::function<void(const std::string& reason)> write_stop_summary_;  // as above
  Watchdog watchdog_;  // outlives all components: destroy() may hang too
  const std::unique_ptr<World> world_;
  RankGroups ranks_;
  std::optional<Journal> journal_;  // none while there is no run folder
  RankWatch watch_;
  ComponentFactory factory_;
  const RunContext context_;
  RunCheckpoints checkpoints_;
  const PlanContext plan_context_;
  std::unique_ptr<const RunPlan> plan_;  // null until check()
};

}  // namespace tenon
