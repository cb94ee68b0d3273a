// SPDX-License-Identifier: Apache-2.0
//
// How far the run is, for threads other than the train thread: what it said at the beginning of a
// step, never half of it.
// Threads: any.
#pragma once

#include "host/train/run_state.hpp"

#include <mutex>

namespace tenon {

class PublishedState {
 public:
  void set(const RunState& state) {
    const std::lock_guard lock(mutex_);
    state_ = state;
  }
  RunState get() const {
    const std::lock_guard lock(mutex_);
    return state_;
  }

 private:
  mutable std::mutex mutex_;
  RunState state_;
};

}  // namespace tenon
