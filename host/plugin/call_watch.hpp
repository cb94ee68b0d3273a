// SPDX-License-Identifier: Apache-2.0
//
// Which call into a plugin each thread is in, for the watchdog to see (watchdog.hpp). It judges
// nothing and measures no time: a call costs a few stores, and no look at a clock.
// Invariants: what a slot points to lives as long as the process (plugins are never unloaded, names
// are literals), so that a reader may always follow it; a slot's serial changes whenever a call
// begins or ends.
// Threads: a slot is written by its own thread and read by any.
#pragma once

#include "host/plugin/loaded_plugin.hpp"

#include <atomic>
#include <cstdint>
#include <functional>

namespace tenon {

struct CallSlot {
  std::atomic<const LoadedComponent*> component = nullptr;  // null: in no call
  std::atomic<const char*> function = "";
  std::atomic<const char*> event = "";  // of a hook's call
  std::atomic<uint64_t> serial = 0;
  // Of the watchdog: what it saw at its last look. Guarded by the lock of visit_calls().
  uint64_t seen_serial = 0;
  double seen_seconds = 0;
};

// The slot of this thread; null before its first call.
extern constinit thread_local CallSlot* current_call_slot;
CallSlot& add_call_slot();

// Marks a call into a plugin for as long as it lives. Calls may lie in each other: a plugin calls
// the host, which calls another plugin.
//
// Threads  any
class CallScope {
 public:
  // `function` is a literal.
  CallScope(const LoadedComponent& component, const char* function) noexcept
      : slot_(current_call_slot != nullptr ? *current_call_slot : add_call_slot()),
        outer_component_(slot_.component.load(std::memory_order_relaxed)),
        outer_function_(slot_.function.load(std::memory_order_relaxed)) {
    set(&component, function);
  }
  ~CallScope() { set(outer_component_, outer_function_); }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  void set(const LoadedComponent* component, const char* function) noexcept {
    slot_.function.store(function, std::memory_order_relaxed);
    slot_.component.store(component, std::memory_order_relaxed);
    slot_.serial.store(slot_.serial.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  CallSlot& slot_;
  const LoadedComponent* outer_component_;
  const char* outer_function_;
};

// Says which event the calls of this thread are for, for as long as it lives. `event` is a literal.
class EventScope {
 public:
  explicit EventScope(const char* event) noexcept
      : slot_(current_call_slot != nullptr ? *current_call_slot : add_call_slot()),
        outer_(slot_.event.exchange(event, std::memory_order_relaxed)) {}
  ~EventScope() { slot_.event.store(outer_, std::memory_order_relaxed); }
  EventScope(const EventScope&) = delete;
  EventScope& operator=(const EventScope&) = delete;

 private:
  CallSlot& slot_;
  const char* outer_;
};

// Shows the slots of all threads, while none is added or removed.
void visit_calls(const std::function<void(CallSlot&)>& visit);

}  // namespace tenon
