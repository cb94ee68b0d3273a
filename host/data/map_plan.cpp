// SPDX-License-Identifier: Apache-2.0

#include "host/data/map_plan.hpp"

#include "host/data/batch_builder.hpp"
#include "host/error/assert.hpp"

#include <utility>
#include <vector>

namespace tenon {

MapPlan::MapPlan(DataSource& source,
                 const Window* window,
                 const SampleOrder& order,
                 const RankSampler& sampler,
                 int64_t cursor,
                 std::optional<int64_t> max_batches)
    : source_(source),
      window_(window),
      order_(order),
      sampler_(sampler),
      cursor_(cursor),
      left_(max_batches) {}

std::optional<ReadRequest> MapPlan::next() {
  if (!sampler_.has_share(cursor_) || left_ == 0) {
    return std::nullopt;
  }
  if (left_) {
    --*left_;
  }
  const Share share = sampler_.share(cursor_);
  cursor_ = share.cursor_after;
  return ReadRequest{.first = share.first, .count = share.count, .cursor_after = cursor_};
}

void MapPlan::end_lane(uint32_t) {
  TENON_ASSERT(false, "map style has no lanes");
}

ReadResult MapPlan::read(const ReadRequest& request) {
  if (request.count == 0) {
    return {.batch = empty_batch(source_.info().schema)};
  }
  std::vector<int64_t> indices(static_cast<size_t>(request.count));
  for (int64_t i = 0; i < request.count; ++i) {
    indices[static_cast<size_t>(i)] = order_.index(request.first + i);
  }
  BatchBuilder builder(source_, request.count);
  source_.read(window_, indices, builder.writer());
  Batch batch = builder.finish();
  if (!source_.parts().empty()) {
    for (const int64_t index : indices) {
      batch.row_parts.push_back(static_cast<uint32_t>(source_.part_of(index)));
    }
  }
  for (BatchSequence& sequence : batch.sequences) {
    sequence.part =
        batch.row_parts.empty() ? 0 : batch.row_parts[static_cast<size_t>(sequence.row)];
  }
  return {.batch = std::move(batch)};
}

}  // namespace tenon
