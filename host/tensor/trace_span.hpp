// SPDX-License-Identifier: Apache-2.0
//
// A stretch of the host's own work in a profile, around the operators that it calls. Which steps
// are profiled, and where the profile is written, is host/train/step_profile.hpp's business.
//
// Invariants: while nothing is profiled a span is one load and one branch; spans of one thread end
// in the reverse order of their beginnings; a profile begins and ends between two pieces of traced
// work, so that nothing is recorded into one that is gone.
//
// Threads: any; tracing is turned on and off by the train thread.
#pragma once

#include <ATen/record_function.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>

namespace tenon {

inline constinit std::atomic<bool> g_is_tracing{false};

// True while the operators of this process are recorded.
inline bool is_tracing() {
  return g_is_tracing.load(std::memory_order_relaxed);
}

class TraceSpan {
 public:
  // Called "what", or "what name".
  explicit TraceSpan(const char* what, std::string_view name = {}) {
    if (is_tracing()) {
      begin(what, name);
    }
  }

 private:
  void begin(const char* what, std::string_view name);

  std::optional<at::RecordFunction> record_;
};

// Held by another thread than the train thread while it works, spans and operators included.
[[nodiscard]] std::shared_lock<std::shared_mutex> begin_traced_work();

// Held by the train thread while it turns tracing on or off: waits for the traced work under way.
[[nodiscard]] std::unique_lock<std::shared_mutex> pause_traced_work();

}  // namespace tenon
