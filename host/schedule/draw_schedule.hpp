// SPDX-License-Identifier: Apache-2.0
//
// Draws a simulated schedule as text: a line for each rank, from left to right in time.
//
//   rank 0  F0 F1 ......B0--- B1---
//   rank 1     F0 B0--- F1 B1---
//
// Threads: any.
#pragma once

#include "host/schedule/pipeline_schedule.hpp"
#include "host/schedule/simulate_schedule.hpp"

#include <cstdint>
#include <string>

namespace tenon {

struct DrawOptions {
  uint32_t most_columns = 200;  // of a line; at least 40
};

// Returns the drawing in ASCII, with a legend below. If the names of the actions fit, each action
// is drawn with its name: its kind and microbatch, and its stage if a rank has several. Otherwise
// each column is a letter, of the action that runs at the middle of its time.
std::string drawn_schedule(const PipelineSchedule& schedule,
                           const ScheduleSimulation& simulation,
                           const DrawOptions& options);

}  // namespace tenon
