// SPDX-License-Identifier: Apache-2.0
//
// The run state and the last event, as published by the train thread for other threads. Readers
// never see a partial update. A loop reader of the journal: heartbeats, and the summary of a run
// that another thread ends, get the state from here.
// Threads: any.
#pragma once

#include <tenon/hook.h>

#include "host/journal/entries.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

namespace tenon {

class PublishedState {
 public:
  void set(const RunState& state) {
    const std::lock_guard lock(mutex_);
    state_ = state;
  }
  // The same, at the begin of a step of this process.
  void begin_step(const RunState& state) {
    set(state);
    has_begun_.store(true, std::memory_order_relaxed);
  }
  // True once this process has begun a step. A resumed run has a step before that.
  bool has_begun() const { return has_begun_.load(std::memory_order_relaxed); }
  RunState get() const {
    const std::lock_guard lock(mutex_);
    return state_;
  }

  // The last event fired; none before the first event.
  void set_event(uint32_t event) { event_.store(event, std::memory_order_relaxed); }
  std::optional<uint32_t> event() const {
    const uint32_t event = event_.load(std::memory_order_relaxed);
    return event < TENON_NUM_EVENTS ? std::optional(event) : std::nullopt;
  }

  void read(const Stamp&, const StepBegan& entry) { begin_step(entry.state); }
  void read(const Stamp&, const StateRestored& entry) { set(entry.state); }
  void read(const Stamp&, const RunFailed& entry) { set(entry.state); }
  void read(const EventBegan& event) { set_event(event.event); }

 private:
  mutable std::mutex mutex_;
  RunState state_;
  std::atomic<bool> has_begun_ = false;
  std::atomic<uint32_t> event_ = TENON_NUM_EVENTS;
};

}  // namespace tenon
