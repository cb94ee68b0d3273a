// SPDX-License-Identifier: Apache-2.0
//
// Finds out whether the ranks of a pipeline can run a schedule. It refuses a table in which
//
//   - a row is empty, or names a stage or a microbatch that does not exist;
//   - the actions of a stage are on several ranks;
//   - an action of a microbatch is missing or occurs twice, a backward comes before its forward, or
//     a half of a backward does not match;
//   - a stage does not run forwards, backwards or backwards of weights in the order of
//   microbatches:
//     sums of gradients have that order, as on one rank;
//   - ranks wait for each other (a deadlock);
//   - a rank holds more microbatches than a limit.
//
// Messages in the table must be in the row of their stage and occur once; otherwise they have no
// effect, because a rank sends and receives what its forwards and backwards need.
// Threads: any.
#pragma once

#include "host/schedule/schedule_problem.hpp"
#include "host/schedule/stage_link.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace tenon {

struct ScheduleCheck {
  std::vector<StageLink> links = {};  // chain_links() if empty
  // Microbatches of a stage that a rank holds: from the forward to the end of the backward.
  std::optional<uint32_t> most_held = std::nullopt;
  SchedulePass pass = SchedulePass::kTraining;
};

// Returns the first problem; null if the ranks can run the schedule.
std::optional<ScheduleProblem> find_schedule_problem(const PipelineSchedule& schedule,
                                                     const ScheduleCheck& check);

}  // namespace tenon
