// SPDX-License-Identifier: Apache-2.0
//
// State that exists once per process: reactions to signals, the standard streams, the report of a
// crash, the witness, the settings of computation, and the end of the process. main() makes the
// only object. A run asks this object for what it needs, and gets objects that restore what they
// change. No other code of the host changes such state; tests/tree/process_state_test.cpp lists the
// exceptions.
//
// Invariants: at most one object exists. Its destructor restores the handlers of signals from
// before, so that a program which contains a run gets its own back. The program `host` ends by
// end(), which destroys nothing.
// Threads: created and destroyed by [main].
#pragma once

#include "host/process/compute_settings.hpp"
#include "host/process/run_witness.hpp"
#include "host/process/signal_watch.hpp"

#include <array>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace tenon {

class Process {
 public:
  // Opens standard streams that are closed. Ignores SIGXFSZ and SIGPIPE, so that a failed write
  // returns an error, and SIGUSR1, until a run handles it. Reports crashes (crash_report.hpp).
  // Call it before plugins are loaded.
  Process();
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // ---- for a run ----

  // Returns an object by which one run sets what libtorch has once per process.
  //
  // Threads  [main]
  std::unique_ptr<ComputeSettings> compute_settings();
  // Catches the signals that ask a run to stop or to save, as long as the result exists. One at a
  // time.
  //
  // Threads  [main]
  std::unique_ptr<SignalWatch> watch_signals(SignalWatch::Second second);
  // Sets the rank that the report of a crash names.
  //
  // Threads  [main]
  void report_crashes_of(uint32_t rank, uint32_t num_ranks);
  // The second process, which writes the summary of a run that ends without a report. Null if none
  // was started.
  RunWitness* witness() { return witness_.has_value() ? &*witness_ : nullptr; }

  // Starts the witness. Call it before the process has threads.
  //
  // Threads  [main]
  void start_witness();
  // Ends the witness; it writes nothing.
  //
  // Threads  [main]
  void end_witness();

  // ---- the end ----

  // Ends the process with `code`, as it was meant to end. Flushes stdout and stderr, and runs no
  // destructors.
  //
  // Threads  [any]
  [[noreturn]] void end(int code);
  // Ends the process with `code`, and flushes nothing: another thread may hold the lock of a
  // stream.
  //
  // Threads  [any]
  [[noreturn]] void end_at_once(int code);
  // Ends the process by the default action of `signal`. As the first process of a container, where
  // this has no effect, ends it with the exit status that shells report.
  //
  // Threads  [main]
  [[noreturn]] void end_by_signal(int signal);
  // Ends the process after `seconds` with `code`, and with `text` on stderr, unless it has ended by
  // then. For callers whose orderly end may hang. Once.
  //
  // Threads  [any]
  void end_after_grace(const std::string& text, int code, unsigned seconds);

 private:
  // All whose handlers this class, SignalWatch or end_after_grace() change.
  static constexpr std::array kSignals = {
      SIGXFSZ, SIGPIPE, SIGUSR1, SIGTERM, SIGINT, SIGHUP, SIGUSR2, SIGXCPU, SIGALRM};

  std::array<struct sigaction, kSignals.size()> old_{};
  std::optional<RunWitness> witness_;
};

}  // namespace tenon
