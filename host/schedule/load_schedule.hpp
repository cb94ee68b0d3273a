// SPDX-License-Identifier: Apache-2.0
//
// A schedule that ranks can run: of a generator or of a file, checked.
// Threads: any.
#pragma once

#include "host/schedule/check_schedule.hpp"
#include "host/schedule/generate_schedule.hpp"
#include "host/schedule/pipeline_schedule.hpp"

#include <string_view>

namespace tenon {

// Returns whether the name of a request is the path of a file: it has a "." or a "/".
bool is_schedule_file(std::string_view name);

// Generates the schedule of the request, or reads it from the file that the request names. In a
// request for a file, 0 stands for the number that the file has.
//
// Errors   schedule.unreadable, schedule.invalid; for a file with its row and column
PipelineSchedule load_schedule(const ScheduleRequest& request, const ScheduleCheck& check);

}  // namespace tenon
