// SPDX-License-Identifier: Apache-2.0

#include "host/data/stream_plan.hpp"

#include "host/data/batch_builder.hpp"
#include "host/error/error.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace tenon {

StreamPlan::StreamPlan(DataSource& source,
                       const Window* window,
                       const std::vector<ShardPosition>& shards,
                       int64_t batch_size,
                       Remainder last)
    : source_(source), window_(window), batch_size_(batch_size), last_(last) {
  std::optional<int64_t> fewest;
  for (const ShardPosition& shard : shards) {
    // The next lane is the first of the lanes with the fewest batches.
    if (!shard.has_ended && (!fewest || shard.num_batches < *fewest)) {
      fewest = shard.num_batches;
      turn_ = lanes_.size();
    }
    lanes_.push_back({.shard = shard.shard, .has_ended = shard.has_ended});
  }
}

std::optional<ReadRequest> StreamPlan::next() {
  for (size_t i = 0; i < lanes_.size(); ++i) {
    const size_t lane = (turn_ + i) % lanes_.size();
    if (!lanes_[lane].has_ended) {
      turn_ = (lane + 1) % lanes_.size();
      return ReadRequest{.lane = static_cast<uint32_t>(lane)};
    }
  }
  return std::nullopt;
}

void StreamPlan::end_lane(uint32_t lane) {
  lanes_[lane].has_ended = true;
}

ReadResult StreamPlan::read(const ReadRequest& request) {
  const uint32_t shard = lanes_[request.lane].shard;
  BatchBuilder builder(source_, batch_size_);
  ReadResult result;
  result.has_ended_lane = source_.next(window_, shard, batch_size_, builder.writer());
  Batch batch = builder.finish();
  result.position = builder.position();

  const std::string where = formatted("{}: a read of shard {}", source_.name(), shard);
  if (!result.has_ended_lane && batch.samples == 0) {
    throw Error("data.bad_batch",
                where + " returned no sample, expected at least one before the end of the shard");
  }
  if (!result.has_ended_lane && !result.position) {
    throw Error("data.bad_batch", where + " set no position, expected one call of set_position");
  }
  if (batch.samples > 0) {
    if (result.has_ended_lane && last_ == Remainder::kDrop && batch.samples < batch_size_) {
      result.num_dropped = batch.samples;
    } else {
      result.batch = std::move(batch);
    }
  }
  return result;
}

std::vector<ShardPosition> shards_of_rank(const DataSource& source,
                                          const DataRank& rank,
                                          const std::vector<ShardPosition>& start) {
  const uint32_t num_shards = source.info().num_shards;
  if (num_shards < rank.size) {
    throw Error("data.empty",
                formatted("{}: it has {} shards for {} ranks; provide at least one shard per rank, "
                          "or use fewer ranks",
                          source.name(),
                          num_shards,
                          rank.size));
  }
  std::vector<ShardPosition> shards;
  for (int64_t number = rank.rank; number < num_shards; number += rank.size) {
    const auto shard = static_cast<uint32_t>(number);
    const auto known = std::find_if(start.begin(), start.end(), [&](const ShardPosition& position) {
      return position.shard == shard;
    });
    shards.push_back(known != start.end() ? *known : ShardPosition{.shard = shard});
  }
  return shards;
}

}  // namespace tenon
