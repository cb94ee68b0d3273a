// SPDX-License-Identifier: Apache-2.0
//
// The schedule of a pipeline as data: a row of actions for each rank, in the order in which the
// rank runs them in a step. Ranks are those of one pipeline, from 0. Not for schedules of learning
// rates or of events.
// Invariant: the actions of a stage are in one row, so a table says which rank has a stage.
// Threads: any.
#pragma once

#include "host/schedule/stage_action.hpp"

#include <cstdint>
#include <vector>

namespace tenon {

inline constexpr uint32_t kNoRank = UINT32_MAX;

struct PipelineSchedule {
  uint32_t num_stages = 0;
  uint32_t num_microbatches = 0;
  std::vector<std::vector<StageAction>> rows = {};  // by rank

  bool operator==(const PipelineSchedule&) const = default;

  // Returns the rank of each stage: the first row that names the stage; kNoRank if none does.
  std::vector<uint32_t> ranks_of_stages() const;
};

}  // namespace tenon
