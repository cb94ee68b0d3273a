// SPDX-License-Identifier: Apache-2.0
//
// The host's proxy for a learning rate schedule (contract: lr_scheduler.h).

#pragma once

#include <tenon/lr_scheduler.h>

#include "host/plugin/instance.hpp"

#include <cstdint>

namespace tenon {

class LrSchedulerProxy {
 public:
  // Errors   plugin.missing_interface, PluginError of `describe`
  // Threads  [main]
  explicit LrSchedulerProxy(ComponentInstance instance);

  const ComponentInstance& instance() const noexcept { return instance_; }
  bool needs_total() const noexcept { return needs_total_; }

  // Returns the factor on the learning rate at `step` (from 0) of `total` steps (0: unknown).
  //
  // Errors   PluginError; plugin.bad_result for a non-finite factor
  // Threads  [step]
  double factor(uint64_t step, uint64_t total) const;

 private:
  ComponentInstance instance_;
  const tenon_lr_scheduler* table_;
  bool needs_total_;
};

}  // namespace tenon
