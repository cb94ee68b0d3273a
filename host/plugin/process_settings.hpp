// SPDX-License-Identifier: Apache-2.0
//
// Settings of the process that a plugin must not change: the floating-point environment of a
// thread, signal handlers, the number of compute threads, the working directory, the umask and the
// locale. A library can change it
// by being loaded; one linked with -ffast-math sets flush-to-zero, which changes losses. Threads:
// one at a time; the floating-point environment is that of the calling thread.
#pragma once

#include <array>
#include <cfenv>
#include <csignal>
#include <string>
#include <sys/types.h>
#include <vector>

namespace tenon {

class ProcessSettings {
 public:
  // Takes the present state.
  ProcessSettings();

  // Restores the state. Returns what had changed: "the rounding mode, the handler of SIGTERM"; ""
  // if nothing had.
  std::string restore() const;

 private:
  static constexpr int kNumSignals = 65;

  std::fenv_t floating_point_;
  int rounding_;
  bool flushes_to_zero_;
  std::array<struct sigaction, kNumSignals> signals_;
  std::string folder_;
  mode_t umask_;
  int num_threads_;
  std::string locale_;
};

// Logs a warning that a call has changed settings and Tenon has restored them, and remembers it for
// reports.
//
// Threads  any
void report_restored(std::string text);
// Returns what was reported in this process, oldest first; at most a few texts.
std::vector<std::string> restored_settings();

}  // namespace tenon
