// SPDX-License-Identifier: Apache-2.0
//
// Describes one collective for reports of failures.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace tenon {

// One collective, for reports.
struct CollectiveRecord {
  uint64_t number = 0;  // of its group, or of a pair of ranks in it; from 1
  std::string group;    // "control", "shard"
  std::string kind;     // "all_gather"
  std::string what;     // "parameters of block 3"
  int64_t bytes = 0;    // of the whole tensor
  // The rank that sends or receives the tensor; none for a collective of the whole group.
  std::optional<uint32_t> peer = {};
  enum class State { kBegun, kDone, kFailed } state = State::kBegun;
  std::chrono::system_clock::time_point began;
};

}  // namespace tenon
