// SPDX-License-Identifier: Apache-2.0
//
// What a schedule costs: when each action starts and ends, how long ranks are idle, and how many
// microbatches they hold.
// Threads: any.
#pragma once

#include "host/schedule/pipeline_schedule.hpp"
#include "host/schedule/schedule_walk.hpp"
#include "host/schedule/stage_link.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

// Seconds of a rank with all its stages.
struct RankSeconds {
  double forward = 1;
  double backward_inputs = 1;
  double backward_weights = 1;

  bool operator==(const RankSeconds&) const = default;
};

struct SimulatedRank {
  std::vector<ActionSpan> spans = {};  // by action; those that do not compute take no time
  double start = 0;                    // of the first action that computes
  double end = 0;                      // of the last one
  double busy = 0;
  // Most microbatches of a stage between their forward and the end of their backward, at one time.
  uint32_t most_held = 0;

  // Returns the share of the time from the first to the last action in which the rank waits.
  double idle_share() const;
};

struct ScheduleSimulation {
  std::vector<SimulatedRank> ranks = {};
  double seconds = 0;  // of the step

  // Return the first rank with the largest idle share, and with the most microbatches held.
  uint32_t most_idle_rank() const;
  uint32_t fullest_rank() const;
};

// Divides the times of a rank equally among its stages.
ActionTimes even_times(const PipelineSchedule& schedule,
                       const RankSeconds& seconds,
                       double message);

// Requires that find_schedule_problem() finds none for these links.
ScheduleSimulation simulate_schedule(const PipelineSchedule& schedule,
                                     std::span<const StageLink> links,
                                     const ActionTimes& times);

}  // namespace tenon
