// SPDX-License-Identifier: Apache-2.0
//
// The training pass of a planned rank, which memory, traffic and time interpret: its programs, and
// the order in which a step runs them.
// Threads: any.
#pragma once

#include "host/model/program.hpp"
#include "host/train/plan/plan_subject.hpp"
#include "host/train/plan/planned_groups.hpp"
#include "host/train/run_plan/step_schedule.hpp"

#include <cstdint>
#include <vector>

namespace tenon {

// Borrows all that it refers to.
struct PlannedPass {
  const PlanSubject& subject;
  const PlanChoice& choice;
  const GraphFacts& facts;
  const std::vector<const Program*> programs;  // by stage; null: another rank has the stage
  const std::vector<PlannedGroup>& groups;     // by flat group

  bool has_chunks() const;
  // The stages of the rank, and the order of its actions.
  StepSchedule schedule() const;
  // Returns the number of microbatches to interpret. Without a pipeline they do not overlap, so
  // `most_alike` of them are enough.
  uint32_t num_microbatches(int64_t most_alike) const;
};

}  // namespace tenon
