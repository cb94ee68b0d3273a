// SPDX-License-Identifier: Apache-2.0
//
// The position in a shard of a mix of streams, and its encoding for checkpoints.
// Threads: values.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// Position of one source in one shard of the mix.
struct MixPartPosition {
  int64_t taken = 0;                         // samples
  bool has_ended = false;                    // its turn came, and no sample was left
  uint32_t shard = 0;                        // streams: current shard of those read here, from 0
  std::optional<std::string> position = {};  // in that shard; absent: its start

  bool operator==(const MixPartPosition&) const = default;
};

struct MixShardPosition {
  int64_t turn = 0;  // turns since the last source ended
  std::vector<MixPartPosition> parts;

  bool operator==(const MixShardPosition&) const = default;
};

std::string encode(const MixShardPosition& position);
// Errors   data.bad_state if the bytes do not encode a position of `num_parts` sources
MixShardPosition decode_mix_position(std::string_view bytes, std::size_t num_parts);

}  // namespace tenon
