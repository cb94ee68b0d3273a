// SPDX-License-Identifier: Apache-2.0
#include "host/train/signal_watch.hpp"

#include "host/tensor/stop_flag.hpp"

#include <atomic>

namespace tenon {
namespace {

// A handler receives only the signal number, so its state is global.
volatile std::sig_atomic_t first_signal = 0;
volatile std::sig_atomic_t second_ends = 1;
std::atomic<bool> is_save_asked = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int signal) {
  if (first_signal != 0 && second_ends == 0) {
    return;
  }
  if (first_signal != 0) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  first_signal = signal;
  set_stop_requested(true);
}

void on_save_signal(int /*signal*/) {
  is_save_asked = true;
}

}  // namespace

SignalWatch::SignalWatch(Second second) {
  first_signal = 0;
  set_stop_requested(false);
  second_ends = second == Second::kEnds ? 1 : 0;
  struct sigaction action {};
  action.sa_handler = &on_signal;
  sigemptyset(&action.sa_mask);
  // Restarts interrupted reads: a loader must not fail because the user stops the run.
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, &old_term_);
  sigaction(SIGINT, &action, &old_int_);
  is_save_asked = false;
  action.sa_handler = &on_save_signal;
  sigaction(SIGUSR1, &action, &old_usr1_);
}

SignalWatch::~SignalWatch() {
  set_stop_requested(false);
  sigaction(SIGUSR1, &old_usr1_, nullptr);
  if (first_signal != 0 && second_ends == 0) {  // it may arrive while the run shuts down
    std::signal(SIGTERM, SIG_IGN);
    std::signal(SIGINT, SIG_IGN);
    return;
  }
  sigaction(SIGTERM, &old_term_, nullptr);
  sigaction(SIGINT, &old_int_, nullptr);
}

bool SignalWatch::take_save_request() const {
  return is_save_asked.exchange(false);
}

int SignalWatch::received() const {
  return first_signal;
}

const char* SignalWatch::name(int signal) {
  return signal == SIGTERM ? "SIGTERM" : signal == SIGINT ? "SIGINT" : "a signal";
}

}  // namespace tenon
