// SPDX-License-Identifier: Apache-2.0
//
// The host's proxy for a hook (contract: hook.h).

#pragma once

#include <tenon/hook.h>

#include "host/plugin/instance.hpp"

#include <cstdint>

namespace tenon {

struct HookInfo {
  uint64_t events = 0;  // TENON_EVENT_BIT of each event
  uint32_t phase = TENON_PHASE_NORMAL;
  int32_t priority = 0;
  uint32_t reads = 0;   // TENON_TOUCH_*
  uint32_t writes = 0;  // TENON_TOUCH_*
  bool rank_0_only = false;
  bool full_parameters = false;
  bool uses_collectives = false;
};

class HookProxy {
 public:
  // Errors   plugin.missing_interface, plugin.bad_result, PluginError of `describe`
  // Threads  [main]
  explicit HookProxy(ComponentInstance instance);

  const ComponentInstance& instance() const noexcept { return instance_; }
  const HookInfo& info() const noexcept { return info_; }
  bool wants(uint32_t event) const noexcept { return (info_.events >> event & 1) != 0; }

  // Errors   PluginError
  // Threads  [step]
  void on_event(const tenon_event& event) const {
    instance_.call("on_event", [&] { return table_->on_event(instance_.self(), &event); });
  }

 private:
  ComponentInstance instance_;
  const tenon_hook* table_;
  HookInfo info_;
};

}  // namespace tenon
