// SPDX-License-Identifier: Apache-2.0
//
// The order in which all ranks together read the shards of a window: always a batch of the shard
// with the fewest batches so far; among equals, of the first one. A single rank reads in this
// order. On several ranks, each step takes the same batches, whoever reads them.
//
// Rank r reads the shards s with s mod ranks = r. Whether a shard has another batch is known only
// to its rank. So ranks ask for the next turns, share the answers, and pass these turns.
// Invariant: after the same answers, all ranks hold the same turns.
// Threads: owned by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace tenon {

class ShardTurns {
 public:
  struct Shard {
    int64_t num_batches = 0;
    bool has_ended = false;
  };

  explicit ShardTurns(std::span<const Shard> shards);

  // Returns the shards of the next turns, at most `most`, each shard once. Turns of shards that
  // turn out to have no batch drop out; the order of the others stays.
  std::vector<uint32_t> next(size_t most) const;
  // Returns the shards of the next turns, each rank at most once.
  std::vector<uint32_t> next_of_each_rank(uint32_t num_ranks) const;
  // Passes turns that were returned last. `has_batch` states for each one whether its shard had a
  // batch. A shard without a batch has ended.
  void pass(std::span<const uint32_t> turns, std::span<const int64_t> has_batch);

  // True if no shard can have another batch.
  bool has_ended() const { return live_.empty(); }

 private:
  using Turn = std::pair<int64_t, uint32_t>;  // batches so far, number of the shard

  std::set<Turn> live_;               // in the order of their turns
  std::vector<int64_t> num_batches_;  // by shard
};

}  // namespace tenon
