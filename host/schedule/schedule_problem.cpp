// SPDX-License-Identifier: Apache-2.0
#include "host/schedule/schedule_problem.hpp"

#include "host/text/formatted.hpp"

namespace tenon {

ScheduleProblem problem_at(const PipelineSchedule& schedule,
                           uint32_t rank,
                           size_t action,
                           const std::string& text) {
  return {.rank = rank,
          .action = action,
          .text = formatted("rank {}, action {} ({}): {}",
                            rank,
                            action + 1,
                            action_text(schedule.rows[rank][action]),
                            text)};
}

}  // namespace tenon
