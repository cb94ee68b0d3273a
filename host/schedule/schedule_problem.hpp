// SPDX-License-Identifier: Apache-2.0
//
// Why the ranks of a pipeline cannot run a schedule.
// Threads: any.
#pragma once

#include "host/schedule/pipeline_schedule.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace tenon {

enum class SchedulePass { kTraining, kEvaluation };  // an evaluation has forwards only

struct ScheduleProblem {
  uint32_t rank = kNoRank;                      // kNoRank if the problem belongs to no rank
  std::optional<size_t> action = std::nullopt;  // in the rank's row; null if it is of no action
  std::string text = {};                        // "rank 2, action 7 (2B0): ..."
};

// Returns a problem at an action, with its place before the text. Actions are counted from 1 there.
ScheduleProblem problem_at(const PipelineSchedule& schedule,
                           uint32_t rank,
                           size_t action,
                           const std::string& text);

}  // namespace tenon
