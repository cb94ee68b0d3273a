// SPDX-License-Identifier: Apache-2.0
//
// Computes the memory, traffic and time of a step on one rank: memory by kind at the step's peak,
// bytes by collective and link, and seconds. All three interpret the program that a run executes.
// With a pipeline, each of its ranks has programs, and the schedule gives their order and the time.
// Opens no device and calls no plugin.
// Not for costs of blocks (block_cost.hpp) nor for choosing among meshes (mesh_search.hpp).
// Invariants: bytes sent equal the bytes that a run counts, exactly; the kinds of memory add up to
// the sum that is compared with a rank's memory.
// Threads: any, one at a time.
#pragma once

#include "host/train/plan/plan_machine.hpp"
#include "host/train/plan/plan_subject.hpp"
#include "host/train/plan/planned_program.hpp"
#include "host/train/plan/planned_time.hpp"
#include "host/train/plan/planned_traffic.hpp"

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace tenon {

// Bytes of a rank, by kind, at the peak.
struct PlanMemory {
  int64_t parameters = 0;  // persistent: slices, or unsharded parameters
  int64_t gradients = 0;   // persistent
  int64_t optimizer = 0;
  int64_t averages = 0;  // of parameters, for evaluation
  int64_t gathered = 0;  // temporary unsharded parameters and gradients
  int64_t activations = 0;
  int64_t batches = 0;
  int64_t buffers = 0;
  int64_t exchange = 0;  // of ids and table rows between ranks, at most
  int64_t rounding = 0;  // that the allocator adds to the tensors of all kinds
  std::string moment;    // of the peak: "backward of block 'head'"
  int64_t host = 0;      // offloaded to host memory; not in sum()

  // Persistent, of parameters.
  int64_t state() const { return parameters + gradients + optimizer + averages; }
  int64_t sum() const {
    return parameters + gradients + optimizer + averages + gathered + activations + batches +
           buffers + exchange + rounding;
  }
};

// One rank of a pipeline.
struct PipelineRankPlan {
  std::vector<uint32_t> stages;  // ascending
  int64_t elements = 0;          // of parameters that it stores
  uint32_t most_held = 0;        // most microbatches of a stage between forward and backward
  PlanMemory memory;
  PlanTraffic traffic;
  double busy = 0;  // seconds in actions
  double idle = 0;  // share of the time from its first to its last action in which it waits
};

// With a pipeline, memory and traffic are those of the rank that needs the most memory.
struct RankPlan {
  PlanChoice choice;
  PlanMemory memory;
  PlanTraffic traffic;
  PlanTime time;
  uint32_t pipeline_rank = 0;
  std::vector<PipelineRankPlan> pipeline = {};  // by rank; empty without a pipeline
};

// Plans steps of one rank for several choices.
class RankPlanner {
 public:
  // Both are borrowed. The subject must not change; with a pipeline, it is that of any rank.
  RankPlanner(const PlanSubject& subject, const PlanMachine& machine);

  // Plans a step. The number of ranks is `choice.num_ranks()`; of a pipeline, that of the schedule.
  RankPlan plan(const PlanChoice& choice);

 private:
  RankPlan plan_pipeline(const PlanChoice& choice);

  const PlanSubject& subject_;
  const PlanMachine& machine_;
  std::deque<PlanSubject> seen_;          // by pipeline rank; empty without a pipeline
  std::deque<PlannedPrograms> programs_;  // the same; without a pipeline those of `subject_`
};

// Plans a step of one rank for one choice.
RankPlan plan_rank(const PlanSubject& subject,
                   const PlanChoice& choice,
                   const PlanMachine& machine);

}  // namespace tenon
