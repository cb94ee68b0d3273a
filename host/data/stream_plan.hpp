// SPDX-License-Identifier: Apache-2.0
//
// The reads of a window with shards. Each rank reads the shards s with s mod ranks = rank: always
// the shard with the fewest batches, so one batch from each in turn (shard_turns.hpp).
// Invariant: the next shard follows from the numbers of batches taken, so it is not saved.
// Threads: as in ReadPlan.

#pragma once

#include "host/data/data_source.hpp"
#include "host/data/loader_position.hpp"
#include "host/data/rank_sampler.hpp"
#include "host/data/read_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace tenon {

class StreamPlan final : public ReadPlan {
 public:
  // Lane i is shards[i]. Source and window are borrowed.
  StreamPlan(DataSource& source,
             const Window* window,
             const std::vector<ShardPosition>& shards,
             int64_t batch_size,
             Remainder last);

  std::optional<ReadRequest> next() override;
  void end_lane(uint32_t lane) override;
  ReadResult read(const ReadRequest& request) override;

 private:
  DataSource& source_;
  const Window* window_;
  int64_t batch_size_;
  Remainder last_;
  std::vector<uint32_t> shards_;                  // by lane
  std::set<std::pair<int64_t, uint32_t>> turns_;  // batches and lane, without lanes that have ended
};

// Returns the shards of a rank, each at its position in `start`, or at its beginning if `start`
// lacks it.
//
// Errors   data.empty if there are fewer shards than ranks
std::vector<ShardPosition> shards_of_rank(const DataSource& source,
                                          const DataRank& rank,
                                          const std::vector<ShardPosition>& start);

}  // namespace tenon
