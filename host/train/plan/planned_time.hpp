// SPDX-License-Identifier: Apache-2.0
//
// Seconds of a step, by interpreting the program of a rank on lanes: one of computation, and one
// for the transfers of each set of ranks. A lane runs one thing at a time, in the order of the
// program; kAwait makes the computation wait for a transfer, and a step ends when all lanes do.
//
// Assumes that computation and transfers do not slow each other down.
// Threads: any.
#pragma once

#include "host/train/plan/planned_links.hpp"
#include "host/train/plan/planned_pass.hpp"

#include <vector>

namespace tenon {

// Seconds of a step, and its operations.
struct PlanTime {
  double compute = 0;  // recompute included
  double recompute = 0;
  double communication = 0;  // without overlap
  double exposed = 0;        // communication that does not overlap with computation
  double idle = 0;           // waits for other stages
  double step = 0;
  double flops = 0;  // operations of a rank, without recompute; of a pipeline, the mean over ranks
};

// Seconds of the actions of a pipeline rank, with what its transfers add.
struct PlannedStageTimes {
  PlanTime rank;                 // as if the rank never waited for other stages
  std::vector<double> forward;   // by stage: mean over microbatches; 0 for stages of other ranks
  std::vector<double> backward;  // the same
  double after = 0;              // from the end of the last action to that of the last transfer
};

PlanTime planned_time(const PlannedPass& pass,
                      const PlannedLinks& links,
                      const PlanMachine& machine);

PlannedStageTimes planned_stage_times(const PlannedPass& pass,
                                      const PlannedLinks& links,
                                      const PlanMachine& machine);

}  // namespace tenon
