// SPDX-License-Identifier: Apache-2.0
//
// SIGTERM, SIGINT and SIGUSR1, as a question that the loop asks: the first one asks it to end in
// order, the second one of either ends the process by that signal, or is left to the launcher to
// act on. Invariant: handlers are those of before once the object is gone, unless a first signal
// has come and the second is left to the launcher: then signals are ignored.
// Threads  [main]; `received` and `take_save_request` from any
#pragma once

#include <csignal>

namespace tenon {

class SignalWatch {
 public:
  enum class Second {
    kEnds,
    kIgnored,  // for a rank of --launch: the terminal and the launcher may both send it the first
  };
  explicit SignalWatch(Second second = Second::kEnds);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // True once for each time that SIGUSR1 has come: it asks for a checkpoint, and the run goes on.
  bool take_save_request() const;
  // The first signal that came, or 0.
  int received() const;
  // "SIGTERM".
  static const char* name(int signal);

 private:
  struct sigaction old_term_ {};
  struct sigaction old_int_ {};
  struct sigaction old_usr1_ {};
};

}  // namespace tenon
