// SPDX-License-Identifier: Apache-2.0
//
// A step of a pipeline: the ranks' plans differ by their stages, and the schedule says when each
// rank waits for another one.
// Threads: any.
#pragma once

#include "host/model/graph_facts.hpp"
#include "host/schedule/simulate_schedule.hpp"
#include "host/train/plan/plan_subject.hpp"
#include "host/train/plan/planned_links.hpp"
#include "host/train/plan/planned_time.hpp"

#include <cstdint>
#include <vector>

namespace tenon {

// Returns the subject with the stages of another pipeline rank.
PlanSubject seen_by(const PlanSubject& subject, uint32_t pipeline_rank);

// Returns the links of the ranks of a pipeline rank's stages.
PlannedLinks links_of_stage(const PlanChoice& choice,
                            uint32_t pipeline_rank,
                            const PlanMachine& machine);

// Simulates the schedule with the times of the ranks' actions and of the messages. `times` are by
// pipeline rank.
ScheduleSimulation simulated_step(const PlanSubject& subject,
                                  const GraphFacts& facts,
                                  const PlanChoice& choice,
                                  const PlanMachine& machine,
                                  const std::vector<PlannedStageTimes>& times);

}  // namespace tenon
