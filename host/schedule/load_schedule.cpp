// SPDX-License-Identifier: Apache-2.0
#include "host/schedule/load_schedule.hpp"

#include "host/error/error.hpp"
#include "host/schedule/schedule_csv.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>

namespace tenon {
namespace {

// "row 2, column 5: " before the text of a problem; "" if it has no place in the table.
std::string place_of(const ScheduleProblem& problem, const ScheduleTable& table) {
  if (problem.rank == kNoRank) {
    return "";
  }
  const uint32_t row = problem.rank + 1;
  return problem.action.has_value()
             ? formatted("row {}, column {}: ", row, table.columns[problem.rank][*problem.action])
             : formatted("row {}: ", row);
}

PipelineSchedule checked_file(const ScheduleRequest& request, const ScheduleCheck& check) {
  ScheduleTable table = read_schedule_file(request.name);
  PipelineSchedule& schedule = table.schedule;
  if (request.num_ranks != 0 && request.num_ranks != schedule.rows.size()) {
    throw Error("schedule.invalid",
                formatted("{}: expected a row for each of {}, found {}",
                          request.name,
                          counted(request.num_ranks, "rank"),
                          counted(schedule.rows.size(), "row")));
  }
  if (request.num_microbatches != 0) {
    schedule.num_microbatches = request.num_microbatches;
  }
  if (request.stages_per_rank != 0) {
    schedule.num_stages =
        static_cast<uint32_t>(std::min(uint64_t{kMostScheduleNumber} + 1,
                                       uint64_t{request.stages_per_rank} * schedule.rows.size()));
  }
  if (const auto problem = find_schedule_problem(schedule, check); problem.has_value()) {
    throw Error("schedule.invalid",
                formatted("{}: {}{}", request.name, place_of(*problem, table), problem->text));
  }
  return std::move(schedule);
}

}  // namespace

bool is_schedule_file(std::string_view name) {
  return name.find_first_of("./") != std::string_view::npos;
}

PipelineSchedule load_schedule(const ScheduleRequest& request, const ScheduleCheck& check) {
  if (is_schedule_file(request.name)) {
    return checked_file(request, check);
  }
  PipelineSchedule schedule = generate_schedule(request);
  if (const auto problem = find_schedule_problem(schedule, check); problem.has_value()) {
    throw Error("schedule.invalid", formatted("{}: {}", request.name, problem->text));
  }
  return schedule;
}

}  // namespace tenon
