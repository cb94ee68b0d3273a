// SPDX-License-Identifier: Apache-2.0
//
// A span of the host's work in a profile, around the operators that it calls.
// host/train/step_profile.hpp decides which steps are profiled, and writes the profile.
//
// Invariants: without a profile, a span is one load and one branch; spans of one thread end in the
// reverse order of their starts; a profile starts and ends between two pieces of traced work, so
// that nothing is recorded into a finished profile.
//
// Threads: any; the train thread turns tracing on and off.
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
  // The name of the span is "what", or "what name".
  explicit TraceSpan(const char* what, std::string_view name = {}) {
    if (is_tracing()) {
      begin(what, name);
    }
  }

 private:
  void begin(const char* what, std::string_view name);

  std::optional<at::RecordFunction> record_;
};

// Threads other than the train thread hold this while they run spans or operators.
[[nodiscard]] std::shared_lock<std::shared_mutex> begin_traced_work();

// The train thread holds this while it turns tracing on or off. Waits for current traced work.
[[nodiscard]] std::unique_lock<std::shared_mutex> pause_traced_work();

}  // namespace tenon
