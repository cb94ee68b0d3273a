// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/planned_pass.hpp"

#include <algorithm>

namespace tenon {

bool PlannedPass::has_chunks() const {
  return std::ranges::any_of(
      programs, [](const Program* program) { return program != nullptr && program->has_chunks(); });
}

StepSchedule PlannedPass::schedule() const {
  return subject.pipeline.has_value()
             ? StepSchedule(subject.pipeline->schedule, subject.pipeline_rank())
             : StepSchedule();
}

uint32_t PlannedPass::num_microbatches(int64_t most_alike) const {
  return static_cast<uint32_t>(subject.pipeline.has_value()
                                   ? subject.microbatches
                                   : std::min(subject.microbatches, most_alike));
}

}  // namespace tenon
