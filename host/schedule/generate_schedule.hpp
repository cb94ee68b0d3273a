// SPDX-License-Identifier: Apache-2.0
//
// The schedules that have a name. Each generator works for any number of ranks and microbatches
// from 1, also for fewer microbatches than stages: it makes the table of more microbatches and
// removes the surplus ones, which cannot deadlock.
//
//   gpipe        all forwards, then all backwards
//   1f1b         a forward and a backward in turn, once the last stage has one
//   interleaved  1f1b with several stages a rank; rank r has stages r, r + ranks, ...
//   zb-h1        1f1b with backwards in halves; weights fill the end
//   zb-v         backwards in halves, two stages a rank; rank r has r and 2 * ranks - 1 - r
//   dualpipe-v   the same stages; forwards and backwards alternate between both
//
// Threads: any.
#pragma once

#include "host/schedule/pipeline_schedule.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

// The most pairs of a stage and a microbatch that a generator makes.
inline constexpr uint64_t kMostGeneratedPairs = 1'000'000;

struct ScheduleRequest {
  std::string name = {};  // of a generator
  uint32_t num_ranks = 1;
  uint32_t num_microbatches = 1;
  uint32_t stages_per_rank = 0;  // 0: what the generator has by default

  bool operator==(const ScheduleRequest&) const = default;
};

// Returns the names of the generators, in the order above.
std::vector<std::string> schedule_names();

// Source   Huang et al., "GPipe" (2019); Narayanan et al., "Efficient Large-Scale Language Model
//          Training on GPU Clusters Using Megatron-LM" (2021); Qi et al., "Zero Bubble Pipeline
//          Parallelism" (2023) and "Pipeline Parallelism with Controllable Memory" (2024);
//          DeepSeek-AI, "DualPipe" (2025)
// Errors   schedule.invalid: an unknown name, a number that the generator does not have, or more
//          than kMostGeneratedPairs
PipelineSchedule generate_schedule(const ScheduleRequest& request);

// Returns the schedule of an evaluation with the same stages on the same ranks: forwards only, by
// microbatch and then by stage.
PipelineSchedule evaluation_schedule(const PipelineSchedule& schedule, uint32_t num_microbatches);

}  // namespace tenon
