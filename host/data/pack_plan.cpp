// SPDX-License-Identifier: Apache-2.0

#include "host/data/pack_plan.hpp"

#include "host/data/batch_builder.hpp"
#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/text/formatted.hpp"

#include <memory>
#include <utility>

namespace tenon {

PackPlan::PackPlan(PackedSource& source,
                   const Window* window,
                   const PackGroups& groups,
                   const Deals& deals,
                   int64_t cursor,
                   const PackPosition& position)
    : source_(source),
      window_(window),
      groups_(groups),
      deals_(deals),
      cursor_(cursor),
      next_group_(position.group) {
  if (deals_.rows_per_step == 0) {
    deals_.rows_per_step = deals_.batch_size * deals_.rank.size;
  }
  if (!is_complete()) {
    pack_group(position.row);
  }
}

// Adds the rows of the next group, from `first_row` on. Dropped samples count with the row that
// follows them, or with the last row of the window.
void PackPlan::pack_group(int64_t first_row) {
  const int64_t number = next_group_++;
  PackGroups::Group group = groups_.group(number);
  const auto num_rows = static_cast<int64_t>(group.rows.size());
  if (first_row > num_rows) {
    throw Error("data.changed",
                formatted("{}: group {} has {} rows, but the checkpoint was taken after {}; resume "
                          "with the data as it was",
                          source_.name(),
                          number,
                          num_rows,
                          first_row));
  }
  if (first_row == 0) {
    dropped_ += group.dropped;
  }
  for (int64_t row = first_row; row < num_rows; ++row) {
    PackRow& one = group.rows[static_cast<std::size_t>(row)];
    one.dropped = std::exchange(dropped_, {});
    ready_.push_back({.row = std::move(one), .next = {.group = number, .row = row + 1}});
  }
  if (is_complete() && !ready_.empty()) {
    ready_.back().row.dropped += std::exchange(dropped_, {});
  }
}

// Packs groups until the next step and microbatch are known to be complete, or all rows are known.
void PackPlan::look_ahead() {
  const int64_t microbatch = deals_.batch_size * deals_.rank.size;
  while (!is_complete() &&
         static_cast<int64_t>(ready_.size()) < deals_.rows_per_step + microbatch) {
    pack_group(0);
  }
}

// Until all rows are known, the next microbatch is complete, and not dropped.
RankSampler PackPlan::sampler() const {
  return {num_known(),
          deals_.batch_size,
          deals_.rank,
          is_complete() ? deals_.last : Remainder::kShort,
          deals_.rows_per_step};
}

std::optional<ReadRequest> PackPlan::next() {
  if (deals_.max_batches == 0) {
    return std::nullopt;
  }
  look_ahead();
  const RankSampler sampler = this->sampler();
  if (!sampler.has_share(cursor_)) {
    return std::nullopt;
  }
  if (deals_.max_batches) {
    --*deals_.max_batches;
  }
  const Share share = sampler.share(cursor_);
  auto packed = std::make_shared<PackedRead>();
  for (; cursor_ < share.cursor_after; ++cursor_) {
    Ready& ready = ready_.front();
    packed->counts += counts_of(ready.row, source_.options().over_long);
    packed->after = ready.next;
    if (cursor_ >= share.first && cursor_ < share.first + share.count) {
      packed->rows.push_back(std::move(ready.row));
    }
    ready_.pop_front();
  }
  return ReadRequest{.first = share.first,
                     .count = share.count,
                     .cursor_after = share.cursor_after,
                     .packed = std::move(packed)};
}

void PackPlan::end_lane(uint32_t) {
  TENON_ASSERT(false, "map style has no lanes");
}

ReadResult PackPlan::read(const ReadRequest& request) {
  return {.batch = source_.read_rows(window_, request.packed->rows)};
}

int64_t PackPlan::num_dropped() const {
  int64_t samples = 0;
  if (is_complete() && !sampler().has_share(cursor_)) {
    for (const Ready& ready : ready_) {
      samples += counts_of(ready.row, source_.options().over_long).samples;
    }
  }
  return samples;
}

}  // namespace tenon
