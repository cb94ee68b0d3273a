// SPDX-License-Identifier: Apache-2.0
//
// Which call into a plugin has been under way for longest, for those who tell what a run is doing.
// It decides nothing: the watchdog does. Times are as exact as it is asked often.
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
  // None if no thread is in a plugin.
  std::optional<StuckCall> look();

 private:
  struct Seen {
    uint64_t serial = 0;
    std::chrono::steady_clock::time_point since;
  };
  std::map<const CallSlot*, Seen> seen_;  // of the last look
};

}  // namespace tenon
