// SPDX-License-Identifier: Apache-2.0
#include "host/data/shard_turns.hpp"

#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using Shards = std::vector<uint32_t>;

// The shards of all turns, taken `most` at a time, if each shard has so many batches.
Shards all_turns(std::vector<int64_t> sizes, size_t most, ShardTurns turns) {
  Shards order;
  while (!turns.has_ended()) {
    const Shards next = turns.next(most);
    std::vector<int64_t> has_batch;
    for (const uint32_t shard : next) {
      has_batch.push_back(sizes[shard] > 0 ? 1 : 0);
      if (sizes[shard]-- > 0) {
        order.push_back(shard);
      }
    }
    turns.pass(next, has_batch);
  }
  return order;
}

}  // namespace

TEST_CASE("shards are read in turn, and shards that have ended are left out", "[data]") {
  const std::vector<ShardTurns::Shard> fresh(4);
  for (const size_t most : {1, 2, 3, 100}) {
    CHECK(all_turns({3, 0, 1, 2}, most, ShardTurns(fresh)) == Shards{0, 2, 3, 0, 3, 0});
  }
}

TEST_CASE("turns go on in the middle of a round, and shards that lag behind catch up", "[data]") {
  const std::vector<ShardTurns::Shard> saved = {{.num_batches = 3},
                                                {.num_batches = 2},
                                                {.num_batches = 2, .has_ended = true},
                                                {.num_batches = 0}};
  for (const size_t most : {1, 2, 100}) {
    CHECK(all_turns({1, 2, 0, 4}, most, ShardTurns(saved)) == Shards{3, 3, 1, 3, 0, 1, 3});
  }
}

TEST_CASE("in the turns of each rank, no rank has two", "[data]") {
  ShardTurns turns(std::vector<ShardTurns::Shard>(5));
  CHECK(turns.next_of_each_rank(2) == Shards{0, 1});
  CHECK(turns.next_of_each_rank(3) == Shards{0, 1, 2});
  turns.pass(std::vector<uint32_t>{0, 1}, std::vector<int64_t>{1, 0});
  CHECK(turns.next_of_each_rank(2) == Shards{2, 3});
  turns.pass(std::vector<uint32_t>{2, 3}, std::vector<int64_t>{0, 0});
  // Shards 4 and 0, and both are of rank 0.
  CHECK(turns.next_of_each_rank(2) == Shards{4});
}

}  // namespace tenon
