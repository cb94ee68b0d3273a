// SPDX-License-Identifier: Apache-2.0
//
// The part of the check of a schedule that needs no order between ranks: what each row says, and
// what all rows together lack.
// Threads: any.
#pragma once

#include "host/schedule/schedule_problem.hpp"

#include <optional>

namespace tenon {

// Returns the first problem of the rows; null if there is none.
std::optional<ScheduleProblem> find_row_problem(const PipelineSchedule& schedule,
                                                SchedulePass pass);

}  // namespace tenon
