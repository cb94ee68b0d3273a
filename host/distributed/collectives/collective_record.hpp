// SPDX-License-Identifier: Apache-2.0
//
// Describes one collective for reports of failures.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tenon {

// One collective, for reports.
struct CollectiveRecord {
  uint64_t number = 0;  // of its group, from 1
  std::string group;    // "control", "shard"
  std::string kind;     // "all_gather"
  std::string what;     // "parameters of block 3"
  int64_t bytes = 0;    // of the whole tensor
  enum class State { kBegun, kDone, kFailed } state = State::kBegun;
  std::chrono::system_clock::time_point began;
};

}  // namespace tenon
