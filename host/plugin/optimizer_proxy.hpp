// SPDX-License-Identifier: Apache-2.0
//
// The host's proxy for an optimizer of dense parameters (contract: optimizer.h).

#pragma once

#include <tenon/optimizer.h>

#include "host/plugin/instance.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

struct SlotSpec {
  std::string name;
  uint32_t shape = TENON_SLOT_LIKE_PARAMETER;
  uint32_t dtype = TENON_F32;  // a dtype, or TENON_CLASS_PARAM
  double init = 0;
};

struct OptimizerInfo {
  uint32_t needs = TENON_OPTIMIZER_ELEMENTWISE;
  std::vector<SlotSpec> slots;
};

class OptimizerProxy {
 public:
  // Errors   plugin.missing_interface, plugin.bad_result, PluginError of `describe`
  // Threads  [main]
  explicit OptimizerProxy(ComponentInstance instance);

  const ComponentInstance& instance() const noexcept { return instance_; }
  const OptimizerInfo& info() const noexcept { return info_; }

  // Errors   PluginError
  // Threads  [step]
  void update(const tenon_exec& exec, const tenon_update_args& args) const {
    instance_.call("update", [&] { return table_->update(instance_.self(), &exec, &args); });
  }

 private:
  ComponentInstance instance_;
  const tenon_optimizer* table_;
  OptimizerInfo info_;
};

}  // namespace tenon
