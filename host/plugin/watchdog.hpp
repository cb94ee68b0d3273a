// SPDX-License-Identifier: Apache-2.0
//
// Periodically checks if a call into a plugin has exceeded its time limit
// (docs/decisions/0013-watchdog.md). It only reports the call, because calls cannot be canceled.
// The owner decides how to react.
// Invariants: a call is reported after its limit, and at most 25 % of the limit, or 10 ms, later.
// Time in which the whole process was stopped (suspended, or in a debugger) does not count.
// Threads: runs on a separate thread; created and destroyed by one other thread.
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
  std::optional<std::chrono::duration<double>> data;   // of a dataset's calls; null: no limit
  std::optional<std::chrono::duration<double>> other;  // of all other calls; null: no limit
};

struct StuckCall {
  const LoadedComponent* component;
  std::string function;
  std::string event;  // of a hook's call, else ""
  double seconds = 0;

  // `hook "sync" (plugin com.example.sync 1.0.0, plugins/sync.so): on_event at after_step`.
  std::string name() const;
  // name() followed by ` has not returned for 1800 s`.
  std::string describe() const;
};

class Watchdog {
 public:
  // Calls `on_stuck` on the watchdog's thread, at most once, and then stops watching.
  Watchdog(const WatchLimits& limits, std::function<void(const StuckCall&)> on_stuck);
  // Waits until a running `on_stuck` returns.
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
  std::jthread thread_;  // last member: destroyed before the members that it uses
};

}  // namespace tenon
