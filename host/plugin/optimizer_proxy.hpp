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
  uint32_t flags = 0;
  int64_t block = 1;  // elements; pieces start at multiples of it

  bool is_elementwise() const { return needs == TENON_OPTIMIZER_ELEMENTWISE; }
  bool has(uint32_t flag) const { return (flags & flag) != 0; }
  // Returns the number of blocks of `numel` elements.
  int64_t num_blocks(int64_t numel) const { return (numel + block - 1) / block; }
  // Returns the shape of a slot of a piece, or of a whole parameter, with that shape.
  std::vector<int64_t> slot_shape(const SlotSpec& slot, const std::vector<int64_t>& piece) const;
};

class OptimizerProxy {
 public:
  // Errors   plugin.missing_interface, plugin.bad_result, PluginError of `describe`
  // Threads  [main]
  explicit OptimizerProxy(ComponentInstance instance);

  const ComponentInstance& instance() const noexcept { return instance_; }
  const OptimizerInfo& info() const noexcept { return info_; }

  // True if the optimizer evaluates at other values than it trains at.
  bool has_evaluation_values() const noexcept { return has_evaluation_values_; }

  // Errors   PluginError
  // Threads  [step]
  void update(const tenon_exec& exec, const tenon_update_args& args) const {
    instance_.call("update", [&] { return table_->update(instance_.self(), &exec, &args); });
  }
  // Requires has_evaluation_values().
  //
  // Errors   PluginError
  // Threads  [step]
  void evaluation_values(const tenon_exec& exec, const tenon_evaluation_values_args& args) const {
    instance_.call("evaluation_values",
                   [&] { return table_->evaluation_values(instance_.self(), &exec, &args); });
  }

 private:
  ComponentInstance instance_;
  const tenon_optimizer* table_;
  OptimizerInfo info_;
  bool has_evaluation_values_ = false;
};

}  // namespace tenon
