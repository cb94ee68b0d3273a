// SPDX-License-Identifier: Apache-2.0
#include "host/train/evaluation_values.hpp"

namespace tenon {

// If `work` throws, the run ends, and the values stay.
void EvaluationValues::during(uint64_t step, const std::function<void()>& work) {
  if (is_inside_ || !differ()) {
    work();
    return;
  }
  is_inside_ = true;
  sharded_.resolve();
  optimizer_.use_evaluation_values({step, 0, false});
  const bool are_averages = has_averages();
  if (are_averages) {
    averages_->use_averages();
  }
  sharded_.publish();
  work();
  sharded_.resolve();
  optimizer_.use_training_values();
  if (are_averages) {
    averages_->use_training_values();
  }
  sharded_.publish();
  is_inside_ = false;
}

}  // namespace tenon
