// SPDX-License-Identifier: Apache-2.0
#include "host/data/shard_turns.hpp"

#include "host/error/assert.hpp"

namespace tenon {

ShardTurns::ShardTurns(std::span<const Shard> shards) {
  for (const Shard& shard : shards) {
    if (!shard.has_ended) {
      live_.emplace(shard.num_batches, static_cast<uint32_t>(num_batches_.size()));
    }
    num_batches_.push_back(shard.num_batches);
  }
}

// A shard whose turn is taken moves back by one batch. From there on, its next turn would come
// first, so the list ends.
std::vector<uint32_t> ShardTurns::next(size_t most) const {
  std::vector<uint32_t> shards;
  for (auto turn = live_.begin(); turn != live_.end() && shards.size() < most; ++turn) {
    if (*turn > Turn(live_.begin()->first + 1, live_.begin()->second)) {
      break;
    }
    shards.push_back(turn->second);
  }
  return shards;
}

std::vector<uint32_t> ShardTurns::next_of_each_rank(uint32_t num_ranks) const {
  std::vector<uint32_t> shards = next(num_ranks);
  std::vector<bool> has_turn(num_ranks, false);
  for (size_t i = 0; i < shards.size(); ++i) {
    const uint32_t rank = shards[i] % num_ranks;
    if (has_turn[rank]) {
      shards.resize(i);
      break;
    }
    has_turn[rank] = true;
  }
  return shards;
}

void ShardTurns::pass(std::span<const uint32_t> turns, std::span<const int64_t> has_batch) {
  TENON_ASSERT(turns.size() == has_batch.size(), "an answer for each turn");
  for (size_t i = 0; i < turns.size(); ++i) {
    const uint32_t shard = turns[i];
    live_.erase({num_batches_[shard], shard});
    if (has_batch[i] != 0) {
      live_.emplace(++num_batches_[shard], shard);
    }
  }
}

}  // namespace tenon
