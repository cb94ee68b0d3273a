// SPDX-License-Identifier: Apache-2.0
//
// Finds the longest-running call into a plugin, for reports on the activity of a run. Enforces no
// limit; the watchdog does. A duration counts from the first look() that saw the call.
// Threads: any, but one at a time for one object.
#pragma once

#include "host/plugin/watchdog.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

namespace tenon {

struct CallSlot;

class LongestCall {
 public:
  // Returns null if no thread is in a call.
  std::optional<StuckCall> look();

 private:
  struct Seen {
    uint64_t serial = 0;
    std::chrono::steady_clock::time_point since;
  };
  std::map<const CallSlot*, Seen> seen_;  // calls in progress at the last look()
};

}  // namespace tenon
