// SPDX-License-Identifier: Apache-2.0
//
// Catches SIGTERM, SIGINT and SIGUSR1, and lets the loop poll for them. The first SIGTERM or SIGINT
// asks the loop to end in order. The second one ends the process by that signal, or is ignored,
// which leaves the reaction to the launcher. SIGUSR1 asks for a checkpoint.
// Invariant: the destructor restores the previous handlers. Exception: if a first signal has
// arrived and the second is ignored, SIGTERM and SIGINT stay ignored.
// Threads  [main]; `received` and `take_save_request` from any
#pragma once

#include <csignal>

namespace tenon {

class SignalWatch {
 public:
  enum class Second {
    kEnds,
    kIgnored,  // for a rank of --launch: terminal and launcher may both send the first signal
  };
  explicit SignalWatch(Second second = Second::kEnds);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // Returns true if SIGUSR1 has arrived since the last call: it asks for a checkpoint.
  bool take_save_request() const;
  // Returns the first SIGTERM or SIGINT that arrived, or 0.
  int received() const;
  // "SIGTERM".
  static const char* name(int signal);

 private:
  struct sigaction old_term_ {};
  struct sigaction old_int_ {};
  struct sigaction old_usr1_ {};
};

}  // namespace tenon
