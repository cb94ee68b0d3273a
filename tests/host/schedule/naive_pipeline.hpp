// SPDX-License-Identifier: Apache-2.0
//
// Pipelines as plainly as possible: what the check and the simulation of schedules are compared
// with. Nothing here uses their code.
#pragma once

#include "host/schedule/pipeline_schedule.hpp"
#include "host/schedule/stage_link.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace tenon {

// Whether ranks can run a training schedule. Without links, each stage reads the one before.
bool can_run(const PipelineSchedule& schedule, const std::vector<StageLink>& links = {});

// Milliseconds, by stage.
struct NaiveTimes {
  std::vector<int> forward;
  std::vector<int> inputs;
  std::vector<int> weights;
  int message = 0;
};

// Runs a schedule millisecond by millisecond. By rank and action: start and end.
std::vector<std::vector<std::pair<int, int>>> run_by_clock(const PipelineSchedule& schedule,
                                                           const std::vector<StageLink>& links,
                                                           const NaiveTimes& times);

}  // namespace tenon
