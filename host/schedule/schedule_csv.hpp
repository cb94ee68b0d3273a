// SPDX-License-Identifier: Apache-2.0
//
// Schedules as CSV, in the form of PyTorch's pipelines: a row for each rank, and in each cell an
// action, such as 2F0. Both forms of PyTorch are read and written: computation only, or also
// messages and actions on parameters. This only reads; check_schedule.hpp says whether a table can
// run.
// Threads: any.
#pragma once

#include "host/schedule/pipeline_schedule.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// Limits of a file.
inline constexpr uint64_t kMostScheduleBytes = uint64_t{8} << 20;
inline constexpr uint32_t kMostScheduleRanks = 10'000;
inline constexpr uint32_t kMostScheduleNumber = 999'999;  // of a stage or a microbatch

// A table with the cells that its actions are from.
struct ScheduleTable {
  PipelineSchedule schedule = {};
  // By rank and action: the column of the cell, from 1. The row is the rank + 1.
  std::vector<std::vector<uint32_t>> columns = {};
};

// Empty cells mean nothing. "(0F1;3B0)OVERLAP_F_B" stands for its actions in their order. Cells may
// have spaces around them, and quotes. Empty rows at the end are ignored. The numbers of stages and
// microbatches are the largest that occur, plus 1.
//
// Errors   schedule.unreadable, with row and column
ScheduleTable read_schedule(std::string_view csv);

// Same, for a file of at most kMostScheduleBytes.
ScheduleTable read_schedule_file(const std::string& path);

// Returns a row for each rank, and a cell for each action.
std::string schedule_csv(const PipelineSchedule& schedule);

}  // namespace tenon
