// SPDX-License-Identifier: Apache-2.0
//
// What this rank computes in a step, in order: forwards and backwards of its stages. Without a
// pipeline, the model is one stage, and each microbatch has its backward before the next forward.
// Threads: any; a schedule does not change.
#pragma once

#include "host/schedule/pipeline_schedule.hpp"

#include <cstdint>
#include <vector>

namespace tenon {

// Returns the schedule with whole backwards: of two halves, the one that gives gradients of inputs
// becomes the backward, and the other one is dropped, as are actions on parameters and messages.
PipelineSchedule with_whole_backwards(PipelineSchedule schedule);

class StepSchedule {
 public:
  // Without a pipeline.
  StepSchedule() = default;
  // The row of a rank of a pipeline. `schedule` has whole backwards.
  StepSchedule(const PipelineSchedule& schedule, uint32_t rank);

  // Returns the forwards and backwards of a step. A step of fewer microbatches than the schedule
  // has leaves out the last ones; without a pipeline, any number is possible.
  std::vector<StageAction> actions(uint32_t num_microbatches) const;

  // The stages of this rank, ascending.
  const std::vector<uint32_t>& stages() const { return stages_; }
  uint32_t first_stage() const { return stages_.front(); }
  uint32_t last_stage() const { return stages_.back(); }
  // True if this rank has the stage that computes the losses.
  bool has_losses() const { return last_stage() + 1 == num_stages_; }
  // True if several ranks have stages, or this one has several: microbatches overlap.
  bool is_pipeline() const { return num_stages_ > 1; }

 private:
  uint32_t num_stages_ = 1;
  std::vector<uint32_t> stages_ = {0};
  std::vector<StageAction> row_;  // of a pipeline
};

}  // namespace tenon
