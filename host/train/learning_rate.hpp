// SPDX-License-Identifier: Apache-2.0
//
// The factor on the learning rates of all parameters: the schedule's factor for a step, times the
// factor that hooks have set.
// Threads: the train thread.
#pragma once

#include "host/plugin/lr_scheduler_proxy.hpp"
#include "host/train/state_fields.hpp"

#include <cstdint>

namespace tenon {

class LearningRate final : public WithStateFields<LearningRate> {
 public:
  // `scheduler` is borrowed; if it is null, the schedule's factor is 1. `total_steps` is 0 if
  // unknown.
  LearningRate(const LrSchedulerProxy* scheduler, uint64_t total_steps)
      : scheduler_(scheduler), total_steps_(total_steps) {}

  // Returns the factor of `step`, counted from 1. For 0, returns the factor of the first step.
  double factor(uint64_t step) const {
    return (scheduler_ != nullptr ? scheduler_->factor(step > 0 ? step - 1 : 0, total_steps_)
                                  : 1.0) *
           hook_factor_;
  }
  // Sets the factor of hooks, which stays in effect until it is set again.
  void set_hook_factor(double factor) { hook_factor_ = factor; }

  template <class Self, class Fields>
  static void describe(Self& self, Fields& f) {
    f.field("hook_lr_factor", self.hook_factor_);
  }

 private:
  const LrSchedulerProxy* scheduler_;
  uint64_t total_steps_;
  double hook_factor_ = 1;
};

}  // namespace tenon
