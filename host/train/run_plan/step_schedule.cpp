// SPDX-License-Identifier: Apache-2.0
#include "host/train/run_plan/step_schedule.hpp"

#include <algorithm>
#include <iterator>

namespace tenon {

PipelineSchedule with_whole_backwards(PipelineSchedule schedule) {
  for (std::vector<StageAction>& row : schedule.rows) {
    std::erase_if(row, [](const StageAction& action) {
      return !is_compute(action.kind) || action.kind == StageActionKind::kBackwardWeights;
    });
    for (StageAction& action : row) {
      if (action.kind == StageActionKind::kBackwardInputs) {
        action.kind = StageActionKind::kBackward;
      }
    }
  }
  return schedule;
}

StepSchedule::StepSchedule(const PipelineSchedule& schedule, uint32_t rank)
    : num_stages_(schedule.num_stages), row_(schedule.rows[rank]) {
  stages_.clear();
  for (const StageAction& action : row_) {
    if (std::ranges::find(stages_, action.stage) == stages_.end()) {
      stages_.push_back(action.stage);
    }
  }
  std::ranges::sort(stages_);
}

std::vector<StageAction> StepSchedule::actions(uint32_t num_microbatches) const {
  std::vector<StageAction> actions;
  if (!is_pipeline()) {
    for (uint32_t i = 0; i < num_microbatches; ++i) {
      actions.push_back({.kind = StageActionKind::kForward, .microbatch = i});
      actions.push_back({.kind = StageActionKind::kBackward, .microbatch = i});
    }
    return actions;
  }
  std::ranges::copy_if(row_, std::back_inserter(actions), [&](const StageAction& action) {
    return action.microbatch < num_microbatches;
  });
  return actions;
}

}  // namespace tenon
