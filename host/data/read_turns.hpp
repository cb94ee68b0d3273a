// SPDX-License-Identifier: Apache-2.0
//
// Divides the reads of a plan among ranks that need the same batches: read i is made by rank
// i mod ranks. As a plan, it has the reads of this rank. The loader follows the turns of all ranks,
// since each read moves the position. Only for plans without lanes: reads of a lane advance its
// source, which must then be read on each rank.
// Threads: next() and take() are called by the loader's thread; read() as in ReadPlan.

#pragma once

#include "host/data/rank_sampler.hpp"
#include "host/data/read_plan.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

namespace tenon {

class ReadTurns final : public ReadPlan {
 public:
  struct Turn {
    int64_t number = 0;  // in the plan, from 0
    int64_t rank = 0;    // that makes the read
    ReadRequest request;
  };

  ReadTurns(std::unique_ptr<ReadPlan> plan, DataRank ranks);

  // Returns the next read of this rank.
  std::optional<ReadRequest> next() override;
  void end_lane(uint32_t lane) override;
  ReadResult read(const ReadRequest& request) override;

  // Returns the next read of all ranks, in the order of the plan, or nothing at its end.
  std::optional<Turn> take();

 private:
  bool plan_next();

  const std::unique_ptr<ReadPlan> plan_;
  const DataRank ranks_;
  int64_t num_planned_ = 0;
  std::deque<Turn> turns_;       // planned, not taken
  std::deque<ReadRequest> own_;  // of this rank, planned, not returned by next()
};

}  // namespace tenon
