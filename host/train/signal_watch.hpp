// SPDX-License-Identifier: Apache-2.0
//
// Catches SIGTERM, SIGINT and SIGUSR1, and lets the loop poll for them. The first SIGTERM or SIGINT
// asks the loop to end in order. The second one ends the process by that signal, or is ignored,
// which leaves the reaction to the launcher. SIGUSR1 asks for a checkpoint.
//
// Handlers run on a separate thread. All other threads block these signals, because kernels that
// oneDNN generates use the stack pointer for addresses of matrices: the frame of a handler on their
// thread would overwrite memory of the heap.
//
// Invariant: the destructor restores the previous handlers and the mask of the thread. Exception:
// if a first signal has arrived and the second is ignored, SIGTERM and SIGINT stay ignored.
// Threads  [main]; `received` and `take_save_request` from any
#pragma once

#include <csignal>
#include <thread>

namespace tenon {

class SignalWatch {
 public:
  enum class Second {
    kEnds,
    kIgnored,  // for a rank of --launch: terminal and launcher may both send the first signal
  };
  // Blocks the signals on this thread, and on threads that are created from now on.
  explicit SignalWatch(Second second = Second::kEnds);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // Blocks the signals on the threads of parallel operators too, if these exist already.
  static void keep_from_compute_threads();

  // Returns true if SIGUSR1 has arrived since the last call: it asks for a checkpoint.
  bool take_save_request() const;
  // Returns the first SIGTERM or SIGINT that arrived, or 0. Signals that this thread sent to itself
  // arrive here.
  int received() const;
  // "SIGTERM".
  static const char* name(int signal);

 private:
  struct sigaction old_term_ {};
  struct sigaction old_int_ {};
  struct sigaction old_usr1_ {};
  sigset_t old_mask_{};
  std::jthread thread_;  // runs the handlers
};

}  // namespace tenon
