// SPDX-License-Identifier: Apache-2.0
//
// What one rank is doing: its step, event and the plugin call under way.
#pragma once

#include <cstdint>
#include <string>

namespace tenon {

struct RankActivity {
  uint64_t step = 0;       // 0: before the first one
  std::string event = {};  // the last one that was fired, "after_backward"; "" where there was none
  std::string call = {};   // into a plugin, under way: "hook \"sync\" (...): on_event"; "" for none
  double call_seconds = 0;  // how long it has been

  // "in step 3, at after_backward", "before the first step".
  std::string place() const;
  // The same with the call: `in step 3, at after_data, in dataset "text" (...): read for 2.5 s`.
  std::string text() const;
};

}  // namespace tenon
