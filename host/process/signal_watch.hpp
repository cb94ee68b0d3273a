// SPDX-License-Identifier: Apache-2.0
//
// Catches the signals that ask a run to stop or to save, and lets the loop poll for them. The first
// SIGTERM, SIGINT, SIGHUP, SIGUSR2 or SIGXCPU asks the loop to end in order; a run that ignores
// SIGHUP (nohup) keeps ignoring it. SIGUSR1 asks for a checkpoint.
//
// One event is one request, however many signals it sends: timeout(1), a terminal, npm and
// launchers send two within milliseconds. Signals within kOneEvent of the first are part of it. A
// later one ends the process by that signal, or is ignored, which leaves the reaction to the
// launcher. The kernel repeats SIGXCPU each second, so its repetitions never count.
//
// Handlers run on a separate thread. All other threads block these signals, because kernels that
// oneDNN generates use the stack pointer for addresses of matrices: the frame of a handler on their
// thread would overwrite memory of the heap. The thread also acknowledges the request in the log,
// says from time to time what the run waits for, and ends a run that does not end by itself before
// its first step, because a blocking call cannot be canceled.
//
// Invariant: the destructor restores the previous handlers and the mask of the thread. Exception:
// once a first signal has arrived, the handlers stay, so that a second signal of the same event
// does not change the exit status.
// Threads  [main]; `received`, `take_save_request` and `begin_training` from any
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

namespace tenon {

class SignalWatch {
 public:
  enum class Second {
    kEnds,
    kIgnored,  // for a rank of --launch: terminal and launcher may both send the first signal
  };
  static constexpr std::chrono::milliseconds kOneEvent{1000};

  // Times that only tests have a reason to change.
  struct Times {
    std::chrono::milliseconds one_event = kOneEvent;
    std::chrono::milliseconds to_stop{3000};    // for an orderly end before the first step
    std::chrono::milliseconds reminder{10000};  // between two lines that say what the run waits for
  };

  // The run, as the thread of this class sees it. The functions are called on that thread.
  struct Run {
    std::function<std::string()> activity;  // "in step 3, at after_data"
    // Ends the process of a run that was asked to stop before its first step, and that is still in
    // a call. Does not return.
    std::function<void(const std::string& reason)> end_start;
  };

  // Blocks the signals on this thread, and on threads that are created from now on.
  explicit SignalWatch(Second second = Second::kEnds);
  SignalWatch(Second second, const Times& times);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // Blocks the signals on the threads of parallel operators too, if these exist already.
  static void keep_from_compute_threads();

  // Sets the run, or with {} forgets it. Waits for a call of its functions that is in progress.
  void watch(Run run) const;
  // From now on the run ends in order, after its running step, however long that takes. Never
  // called by an import and by --eval-only, which have nothing to save.
  void begin_training() const noexcept { is_training_ = true; }

  // Returns true if SIGUSR1 has arrived since the last call: it asks for a checkpoint.
  bool take_save_request() const;
  // Returns the first signal that asked the run to stop, or 0. Signals that this thread sent to
  // itself arrive here.
  int received() const;
  // "SIGTERM".
  static std::string name(int signal);

 private:
  static constexpr std::array kStops = {SIGTERM, SIGINT, SIGHUP, SIGUSR2, SIGXCPU};

  void follow(const std::stop_token& stop) const;
  void acknowledge() const;
  void remind() const;
  void end_start() const;
  std::string activity() const;

  const Times times_;
  std::array<struct sigaction, kStops.size()> old_{};
  struct sigaction old_usr1_ {};
  sigset_t old_mask_{};
  mutable std::atomic<bool> is_training_ = false;
  mutable std::mutex mutex_;
  mutable Run run_;
  std::jthread thread_;  // runs the handlers; last: it uses the rest
};

// From now on a signal ends the run in order, however long that takes. `signals` may be null.
inline void end_in_order(const SignalWatch* signals) {
  if (signals != nullptr) {
    signals->begin_training();
  }
}

}  // namespace tenon
