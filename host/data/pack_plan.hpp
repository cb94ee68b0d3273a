// SPDX-License-Identifier: Apache-2.0
//
// The reads of a window whose samples are packed: rows, in sequence along the groups of the global
// order. Groups are packed when their rows are due, so the number of rows of a window is known only
// at its last group.
// Invariants: the rows depend only on order, lengths and options; each rank has its share of every
// global microbatch, as in rank_sampler.hpp; any PackPosition is reached in the time of one group.
// Threads: as in ReadPlan; functions that ReadPlan lacks are called together with next().

#pragma once

#include "host/data/pack_groups.hpp"
#include "host/data/packed_source.hpp"
#include "host/data/rank_sampler.hpp"
#include "host/data/read_plan.hpp"

#include <cstdint>
#include <deque>
#include <optional>

namespace tenon {

class PackPlan final : public ReadPlan {
 public:
  struct Deals {
    int64_t batch_size = 1;  // rows of one rank's microbatch
    DataRank rank = {};
    Remainder last = Remainder::kShort;
    int64_t rows_per_step = 0;  // as `samples_per_step` of Deal
    std::optional<int64_t> max_batches = {};
  };
  // Starts at row `cursor` of the window, which is at `position`. All are borrowed, except `deals`.
  //
  // Errors   data.changed if the group of `position` has fewer rows; errors of PackGroups
  PackPlan(PackedSource& source,
           const Window* window,
           const PackGroups& groups,
           const Deals& deals,
           int64_t cursor,
           const PackPosition& position);

  std::optional<ReadRequest> next() override;
  void end_lane(uint32_t lane) override;
  ReadResult read(const ReadRequest& request) override;

  // Returns the samples of the rows that Remainder::kDrop drops; 0 until all reads were requested.
  int64_t num_dropped() const;

 private:
  struct Ready {
    PackRow row;
    PackPosition next;  // after this row
  };

  bool is_complete() const { return next_group_ >= groups_.num_groups(); }
  int64_t num_known() const { return cursor_ + static_cast<int64_t>(ready_.size()); }
  void pack_group(int64_t first_row);
  void look_ahead();
  RankSampler sampler() const;

  PackedSource& source_;
  const Window* window_;
  const PackGroups& groups_;
  Deals deals_;
  int64_t cursor_;           // rows requested
  int64_t next_group_;       // the first that is not in ready_
  PackCounts dropped_;       // samples without a row after them, so far
  std::deque<Ready> ready_;  // rows from cursor_ on
};

}  // namespace tenon
