// SPDX-License-Identifier: Apache-2.0
#include "host/schedule/schedule_row.hpp"

#include <algorithm>

namespace tenon {

void ScheduleRow::forward(uint32_t stage) {
  actions_.push_back({stage, StageActionKind::kForward, forwards_[stage]++});
}

void ScheduleRow::backward(uint32_t stage) {
  actions_.push_back({stage, StageActionKind::kBackward, backwards_[stage]++});
}

void ScheduleRow::backward_inputs(uint32_t stage) {
  const uint32_t microbatch = backwards_[stage]++;
  actions_.push_back({stage, StageActionKind::kBackwardInputs, microbatch});
  waiting_.emplace_back(stage, microbatch);
}

void ScheduleRow::oldest_weights() {
  add_weights(waiting_.begin());
}

void ScheduleRow::weights(uint32_t stage) {
  add_weights(first_of(stage));
}

void ScheduleRow::all_weights(uint32_t stage) {
  while (first_of(stage) != waiting_.end()) {
    weights(stage);
  }
}

void ScheduleRow::all_weights() {
  while (!waiting_.empty()) {
    oldest_weights();
  }
}

uint32_t ScheduleRow::num_forwards(uint32_t stage) const {
  const auto at = forwards_.find(stage);
  return at == forwards_.end() ? 0 : at->second;
}

void ScheduleRow::add_weights(Waiting::const_iterator at) {
  if (at == waiting_.end()) {
    return;
  }
  actions_.push_back({at->first, StageActionKind::kBackwardWeights, at->second});
  waiting_.erase(at);
}

ScheduleRow::Waiting::const_iterator ScheduleRow::first_of(uint32_t stage) const {
  return std::ranges::find(waiting_, stage, &Waiting::value_type::first);
}

}  // namespace tenon
