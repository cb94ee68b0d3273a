// SPDX-License-Identifier: Apache-2.0
//
// The training pass of a planned rank, which memory, traffic and time interpret.
// Threads: any.
#pragma once

#include "host/model/program.hpp"
#include "host/train/plan/plan_subject.hpp"
#include "host/train/plan/planned_groups.hpp"

#include <vector>

namespace tenon {

// Borrows all that it refers to.
struct PlannedPass {
  const PlanSubject& subject;
  const PlanChoice& choice;
  const GraphFacts& facts;
  const Program& program;
  const std::vector<PlannedGroup>& groups;  // by flat group
};

}  // namespace tenon
