// SPDX-License-Identifier: Apache-2.0
#include "host/train/signal_watch.hpp"

#include "host/tensor/compute_threads.hpp"
#include "host/tensor/stop_flag.hpp"

#include <atomic>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <pthread.h>
#include <stop_token>

namespace tenon {
namespace {

// A handler receives only the signal number, so its state is global.
volatile std::sig_atomic_t first_signal = 0;
volatile std::sig_atomic_t second_ends = 1;
std::atomic<bool> is_save_asked = false;
static_assert(std::atomic<bool>::is_always_lock_free);

sigset_t watched_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGUSR1);
  return signals;
}

void block_signals() {
  const sigset_t signals = watched_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

void on_signal(int signal) {
  if (first_signal != 0 && second_ends == 0) {
    return;
  }
  if (first_signal != 0) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    sigset_t last;
    sigemptyset(&last);
    sigaddset(&last, signal);
    pthread_sigmask(SIG_UNBLOCK, &last, nullptr);
    return;
  }
  first_signal = signal;
  set_stop_requested(true);
}

void on_save_signal(int /*signal*/) {
  is_save_asked = true;
}

// Handles what is pending for this thread.
void take_pending_signals() {
  const sigset_t signals = watched_signals();
  const timespec at_once{};
  for (int signal = 0; (signal = sigtimedwait(&signals, nullptr, &at_once)) > 0;) {
    if (signal == SIGUSR1) {
      on_save_signal(signal);
    } else {
      on_signal(signal);
    }
  }
}

void wait_for_signals(const std::stop_token& stop) {
  const sigset_t signals = watched_signals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any().wait(lock, stop, [] { return false; });
}

}  // namespace

SignalWatch::SignalWatch(Second second) {
  const sigset_t signals = watched_signals();
  pthread_sigmask(SIG_BLOCK, &signals, &old_mask_);
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
  thread_ = std::jthread(&wait_for_signals);
  pthread_setname_np(thread_.native_handle(), "tenon-signals");
}

SignalWatch::~SignalWatch() {
  thread_ = {};  // ends it
  set_stop_requested(false);
  sigaction(SIGUSR1, &old_usr1_, nullptr);
  if (first_signal != 0 && second_ends == 0) {  // it may arrive while the run shuts down
    std::signal(SIGTERM, SIG_IGN);
    std::signal(SIGINT, SIG_IGN);
  } else {
    sigaction(SIGTERM, &old_term_, nullptr);
    sigaction(SIGINT, &old_int_, nullptr);
  }
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

void SignalWatch::keep_from_compute_threads() {
  on_each_compute_thread(&block_signals);
}

bool SignalWatch::take_save_request() const {
  take_pending_signals();
  return is_save_asked.exchange(false);
}

int SignalWatch::received() const {
  take_pending_signals();
  return first_signal;
}

const char* SignalWatch::name(int signal) {
  return signal == SIGTERM ? "SIGTERM" : signal == SIGINT ? "SIGINT" : "a signal";
}

}  // namespace tenon
