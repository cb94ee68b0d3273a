// SPDX-License-Identifier: Apache-2.0
//
// How far a shard of a mixture of streams has been read, and its bytes for a checkpoint.
// Threads: values.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// Of one source in one shard of the mixture.
struct MixPartPosition {
  int64_t taken = 0;       // samples
  bool has_ended = false;  // it was due and had none left
  uint32_t shard = 0;      // a stream: which of its shards here is being read, counted from 0
  std::optional<std::string> position = {};  // of that shard; none: its start

  bool operator==(const MixPartPosition&) const = default;
};

struct MixShardPosition {
  int64_t turn = 0;  // since the last source ended
  std::vector<MixPartPosition> parts;

  bool operator==(const MixShardPosition&) const = default;
};

std::string encode(const MixShardPosition& position);
// Errors   data.bad_state if the bytes are not those of a position of `num_parts` sources
MixShardPosition decode_mix_position(std::string_view bytes, std::size_t num_parts);

}  // namespace tenon
