// SPDX-License-Identifier: Apache-2.0
//
// How far a window has been consumed: all that a loader needs to resume there.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

struct ShardPosition {
  uint32_t shard = 0;
  std::optional<std::string> position = {};  // none: at its start
  bool has_ended = false;
  int64_t num_batches = 0;  // taken from it so far: says whose turn it is
};

struct LoaderPosition {
  int64_t cursor = 0;                      // map style: samples of the global order, of all ranks
  std::vector<ShardPosition> shards = {};  // stream style: this rank's, in order of their numbers
};

}  // namespace tenon
