// SPDX-License-Identifier: Apache-2.0
#include "host/process/signal_watch.hpp"

#include "host/error/exit_code.hpp"
#include "host/log/log.hpp"
#include "host/process/crash_report.hpp"
#include "host/tensor/each_thread.hpp"
#include "host/tensor/stop_flag.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <optional>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;

// A handler receives only the signal number, so its state is global.
volatile std::sig_atomic_t second_ends = 1;
std::atomic<int> first_signal = 0;
std::atomic<int64_t> first_ns = 0;  // when it arrived; 0: none has
std::atomic<int64_t> one_event_ns = 0;
std::atomic<int> news = -1;  // an eventfd that wakes the thread
std::atomic<bool> is_save_asked = false;
std::atomic<bool> is_hangup_ignored = false;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);

sigset_t no_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  return signals;
}

// Without SIGHUP if the run ignores it: a blocked signal is never ignored, but stays pending.
sigset_t watched_signals() {
  sigset_t signals = no_signals();
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGXCPU}) {
    sigaddset(&signals, signal);
  }
  if (!is_hangup_ignored) {
    sigaddset(&signals, SIGHUP);
  }
  return signals;
}

void block_signals() {
  const sigset_t signals = watched_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

int64_t nanoseconds_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec + 1;
}

void wake_thread() {
  if (const int file = news; file >= 0) {
    const int error = errno;
    const uint64_t one = 1;
    (void)!::write(file, &one, sizeof(one));
    errno = error;
  }
}

void on_signal(int signal) {
  const int64_t now = nanoseconds_now();
  int64_t first = 0;
  if (first_ns.compare_exchange_strong(first, now)) {
    first_signal = signal;
    set_stop_requested(true);
    wake_thread();
    return;
  }
  if (second_ends != 0 && signal != SIGXCPU && now - first >= one_event_ns) {
    end_by_signal(signal);
  }
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

// In the file also if the terminal is quiet.
void log_request(const std::string& line) {
  if (is_logged(LogLevel::kInfo)) {
    log_info(line);
  } else {
    log_to_file(line);
  }
  flush_log();
}

bool is_ignored(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

SignalWatch::SignalWatch(Second second) : SignalWatch(second, Times()) {}

SignalWatch::SignalWatch(Second second, const Times& times) : times_(times) {
  for (size_t i = 0; i < kStops.size(); ++i) {
    sigaction(kStops[i], nullptr, &old_[i]);
    if (kStops[i] == SIGHUP) {
      is_hangup_ignored = is_ignored(old_[i]);
    }
  }
  const sigset_t signals = watched_signals();
  pthread_sigmask(SIG_BLOCK, &signals, &old_mask_);
  first_signal = 0;
  first_ns = 0;
  one_event_ns = std::chrono::nanoseconds(times.one_event).count();
  set_stop_requested(false);
  second_ends = second == Second::kEnds ? 1 : 0;
  struct sigaction action {};
  action.sa_handler = &on_signal;
  sigemptyset(&action.sa_mask);
  // Restarts interrupted reads: a loader must not fail because the user stops the run.
  action.sa_flags = SA_RESTART;
  for (const int signal : kStops) {
    if (sigismember(&signals, signal) == 1) {
      sigaction(signal, &action, nullptr);
    }
  }
  is_save_asked = false;
  action.sa_handler = &on_save_signal;
  sigaction(SIGUSR1, &action, &old_usr1_);
  news = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  thread_ = std::jthread([this](const std::stop_token& stop) { follow(stop); });
  pthread_setname_np(thread_.native_handle(), "tenon-signals");
}

SignalWatch::~SignalWatch() {
  thread_ = {};  // ends it
  if (const int file = news.exchange(-1); file >= 0) {
    ::close(file);
  }
  set_stop_requested(false);
  sigaction(SIGUSR1, &old_usr1_, nullptr);
  if (first_signal == 0) {
    for (size_t i = 0; i < kStops.size(); ++i) {
      sigaction(kStops[i], &old_[i], nullptr);
    }
  }
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

void SignalWatch::keep_from_compute_threads() {
  on_each_compute_thread(&block_signals);
}

void SignalWatch::watch(Run run) const {
  const std::lock_guard lock(mutex_);
  run_ = std::move(run);
}

bool SignalWatch::take_save_request() const {
  take_pending_signals();
  return is_save_asked.exchange(false);
}

int SignalWatch::received() const {
  take_pending_signals();
  return first_signal;
}

std::string SignalWatch::name(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return name != nullptr ? std::string("SIG") + name : formatted("signal {}", signal);
}

// ---- the thread ----

// Sleeps until a signal arrives, then until the run has ended.
void SignalWatch::follow(const std::stop_token& stop) const {
  const sigset_t signals = watched_signals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  const std::stop_callback wake(stop, &wake_thread);
  std::optional<Clock::time_point> arrived;
  Clock::time_point next_line;
  while (!stop.stop_requested()) {
    const auto now = Clock::now();
    if (!arrived.has_value() && first_signal != 0) {
      arrived = now;
      next_line = now + times_.reminder;
      acknowledge();
    }
    if (arrived.has_value() && !is_training_ && now - *arrived >= times_.to_stop) {
      end_start();
    }
    if (arrived.has_value() && now >= next_line) {
      next_line = now + times_.reminder;
      remind();
    }
    int wait_ms = -1;
    if (arrived.has_value()) {
      const auto next = is_training_ ? next_line : std::min(next_line, *arrived + times_.to_stop);
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now);
      // At most a moment: the start may end meanwhile.
      wait_ms = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1000));
    }
    pollfd ready{.fd = news, .events = POLLIN, .revents = 0};
    ::poll(&ready, 1, wait_ms);
    uint64_t count = 0;
    (void)!::read(ready.fd, &count, sizeof(count));
  }
}

std::string SignalWatch::activity() const {
  const std::lock_guard lock(mutex_);
  return run_.activity ? run_.activity() : "before the first step";
}

void SignalWatch::acknowledge() const {
  log_request(
      formatted("received {}: the run stops {}; now {}",
                name(first_signal),
                is_training_ ? "after the running step and one save" : "before its first step",
                activity()));
}

void SignalWatch::remind() const {
  log_request(formatted("still stopping after {}; waiting {}", name(first_signal), activity()));
}

void SignalWatch::end_start() const {
  const std::string reason = "received " + name(first_signal);
  const std::lock_guard lock(mutex_);
  if (run_.end_start) {
    run_.end_start(reason);
  }
  log_request("stopped before the first step: " + reason);
  end_process(static_cast<int>(ExitCode::kStopped));
}

}  // namespace tenon
