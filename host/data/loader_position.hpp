// SPDX-License-Identifier: Apache-2.0
//
// The position in a window, from which a loader can resume.

#pragma once

#include "host/data/packing.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

struct ShardPosition {
  uint32_t shard = 0;
  std::optional<std::string> position = {};  // absent: at its start
  bool has_ended = false;
  int64_t num_batches = 0;  // batches taken so far; determines the next shard
};

struct LoaderPosition {
  // Map style: samples of the global order, of all ranks; with packing: rows.
  int64_t cursor = 0;
  PackPosition packs = {};                 // with packing
  std::vector<ShardPosition> shards = {};  // stream style: this rank's, in order of their numbers
};

}  // namespace tenon
