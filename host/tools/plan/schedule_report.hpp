// SPDX-License-Identifier: Apache-2.0
//
// Formats the output of --schedule.
#pragma once

#include "host/schedule/pipeline_schedule.hpp"
#include "host/schedule/simulate_schedule.hpp"

#include <string>

namespace tenon {

// Returns the drawing of a checked schedule, the time of a step, the idle share of the worst rank,
// and the most microbatches that a rank holds.
std::string schedule_text(const std::string& name,
                          const PipelineSchedule& schedule,
                          const ActionTimes& times);

}  // namespace tenon
