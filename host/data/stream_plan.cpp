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
  for (const ShardPosition& shard : shards) {
    if (!shard.has_ended) {
      turns_.emplace(shard.num_batches, static_cast<uint32_t>(shards_.size()));
    }
    shards_.push_back(shard.shard);
  }
}

// The lane with the fewest batches is next, as in ShardTurns.
std::optional<ReadRequest> StreamPlan::next() {
  if (turns_.empty()) {
    return std::nullopt;
  }
  const auto [num_batches, lane] = *turns_.begin();
  turns_.erase(turns_.begin());
  turns_.emplace(num_batches + 1, lane);
  return ReadRequest{.lane = lane};
}

void StreamPlan::end_lane(uint32_t lane) {
  std::erase_if(turns_, [lane](const auto& turn) { return turn.second == lane; });
}

ReadResult StreamPlan::read(const ReadRequest& request) {
  const uint32_t shard = shards_[request.lane];
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
