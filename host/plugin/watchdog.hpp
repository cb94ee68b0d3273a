// SPDX-License-Identifier: Apache-2.0
//
// Looks from time to time whether a call into a plugin has been under way for longer than it may
// (docs/decisions/0013-watchdog.md). It ends nothing itself: a call cannot be cancelled, and what
// is to be done about one that does not return is for whoever made this.
// Invariants: a call is reported not before its limit, and at most a quarter of it later; time in
// which the whole process stood still (suspended, or in a debugger) does not count.
// Threads: its own thread; made and destroyed by one other.
#pragma once

#include "host/plugin/loaded_plugin.hpp"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace tenon {

struct WatchLimits {
  std::optional<std::chrono::duration<double>> data;   // of a dataset's calls; none: forever
  std::optional<std::chrono::duration<double>> other;  // of all other calls
};

struct StuckCall {
  const LoadedComponent* component;
  std::string function;
  std::string event;  // of a hook's call, else ""
  double seconds = 0;

  // `hook "sync" (plugin com.example.sync 1.0.0, plugins/sync.so): on_event at after_step`.
  std::string name() const;
  // The same with ` has not returned for 1800 s`.
  std::string describe() const;
};

class Watchdog {
 public:
  // `on_stuck` is called on the watchdog's thread, at most once; the watch ends with it.
  Watchdog(const WatchLimits& limits, std::function<void(const StuckCall&)> on_stuck);
  // Waits for an `on_stuck` that is under way.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch(const std::stop_token& stop, std::chrono::duration<double> tick);
  std::optional<StuckCall> look(double seconds) const;

  WatchLimits limits_;
  std::function<void(const StuckCall&)> on_stuck_;
  std::mutex mutex_;
  std::condition_variable_any wakes_;
  std::jthread thread_;  // last: ends before what it uses does
};

}  // namespace tenon
