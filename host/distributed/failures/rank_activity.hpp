// SPDX-License-Identifier: Apache-2.0
//
// The activity of one rank: its step, event and current plugin call.
#pragma once

#include <cstdint>
#include <string>

namespace tenon {

struct RankActivity {
  uint64_t step = 0;        // 0: before the first step
  std::string event = {};   // last event, "after_backward"; "" if none
  std::string call = {};    // current plugin call, "hook \"sync\" (...): on_event"; "" if none
  double call_seconds = 0;  // duration of the call so far

  // "in step 3, at after_backward", "before the first step".
  std::string progress() const;
  // Returns `progress` and the call:
  // `in step 3, at after_data, in dataset "text" (...): read for 2.5 s`.
  std::string text() const;
};

}  // namespace tenon
