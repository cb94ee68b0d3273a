// SPDX-License-Identifier: Apache-2.0
//
// Records which call into a plugin each thread is in; watchdog.hpp and longest_call.hpp read the
// records. A call costs a few stores and no clock reading.
// Invariants: pointers in a slot stay valid until the process ends, because plugins are never
// unloaded and names are literals. A slot's serial changes whenever a call begins or ends.
// Threads: each thread writes its own slot; any thread may read it.
#pragma once

#include "host/plugin/loaded_plugin.hpp"

#include <atomic>
#include <cstdint>
#include <functional>

namespace tenon {

struct CallSlot {
  std::atomic<const LoadedComponent*> component = nullptr;  // null: no call in progress
  std::atomic<const char*> function = "";  // of the last call, if none is in progress
  std::atomic<const char*> event = "";     // of a hook's call; "" for other calls
  // Of the last call that began, also after it returned; null before the first.
  std::atomic<const LoadedComponent*> last_component = nullptr;
  std::atomic<uint64_t> serial = 0;
  // What the watchdog saw at its last visit. Guarded by the lock of visit_calls().
  uint64_t seen_serial = 0;
  double seen_seconds = 0;
};

// The slot of this thread; null before its first call.
extern constinit thread_local CallSlot* current_call_slot;
CallSlot& add_call_slot();

// Marks a call into a plugin during its lifetime. Calls may nest: a plugin calls the host, which
// calls another plugin.
//
// Threads  any
class CallScope {
 public:
  // `function` is a literal. Inlined by force: the cost of each call depends on it.
  [[gnu::always_inline]] CallScope(const LoadedComponent& component, const char* function) noexcept
      : slot_(current_call_slot != nullptr ? *current_call_slot : add_call_slot()),
        outer_component_(slot_.component.load(std::memory_order_relaxed)),
        outer_function_(slot_.function.load(std::memory_order_relaxed)) {
    slot_.last_component.store(&component, std::memory_order_relaxed);
    slot_.function.store(function, std::memory_order_relaxed);
    set(&component);
  }
  [[gnu::always_inline]] ~CallScope() {
    if (outer_component_ != nullptr) [[unlikely]] {
      slot_.function.store(outer_function_, std::memory_order_relaxed);
    }
    set(outer_component_);
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  [[gnu::always_inline]] void set(const LoadedComponent* component) noexcept {
    slot_.component.store(component, std::memory_order_relaxed);
    slot_.serial.store(slot_.serial.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  CallSlot& slot_;
  const LoadedComponent* outer_component_;
  const char* outer_function_;
};

// Sets the event of this thread's calls during its lifetime. `event` is a literal.
class EventScope {
 public:
  explicit EventScope(const char* event) noexcept
      : slot_(current_call_slot != nullptr ? *current_call_slot : add_call_slot()),
        outer_(slot_.event.load(std::memory_order_relaxed)) {
    slot_.event.store(event, std::memory_order_relaxed);  // only this thread writes the slot
  }
  ~EventScope() { slot_.event.store(outer_, std::memory_order_relaxed); }
  EventScope(const EventScope&) = delete;
  EventScope& operator=(const EventScope&) = delete;

 private:
  CallSlot& slot_;
  const char* outer_;
};

// Calls `visit` for the slots of all threads. No slot is added or removed meanwhile.
void visit_calls(const std::function<void(CallSlot&)>& visit);

}  // namespace tenon
