// SPDX-License-Identifier: Apache-2.0
//
// A learning-rate schedule, as the host calls it (lr_scheduler.h has the contract).

#pragma once

#include <tenon/lr_scheduler.h>

#include "host/plugin/instance.hpp"

#include <cstdint>

namespace tenon {

class LrSchedulerProxy {
 public:
  // Errors   plugin.missing_interface
  // Threads  [main]
  explicit LrSchedulerProxy(ComponentInstance instance);

  const ComponentInstance& instance() const noexcept { return instance_; }
  bool needs_total() const noexcept { return needs_total_; }

  // The factor on the rate at `step` (from 0) of `total` (0 if it is not known).
  //
  // Errors   PluginError; plugin.bad_result unless it is finite
  // Threads  [step]
  double factor(uint64_t step, uint64_t total) const;

 private:
  ComponentInstance instance_;
  const tenon_lr_scheduler* table_;
  bool needs_total_;
};

}  // namespace tenon
