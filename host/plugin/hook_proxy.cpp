// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/hook_proxy.hpp"

#include "host/plugin/interface_table.hpp"
#include "host/text/formatted.hpp"

#include <utility>

namespace tenon {

HookProxy::HookProxy(ComponentInstance instance)
    : instance_(std::move(instance)), table_(table_of<tenon_hook>(instance_, TENON_HOOK_ID)) {
  const ComponentIdentity& identity = instance_.identity();
  TENON_REQUIRE(tenon_hook, table_, describe, TENON_HOOK_ID, identity);
  TENON_REQUIRE(tenon_hook, table_, on_event, TENON_HOOK_ID, identity);

  tenon_hook_info given{};
  given.phase = TENON_PHASE_NORMAL;
  const auto info = filled_by(
      instance_,
      "describe",
      [&](tenon_hook_info* out) { return table_->describe(instance_.self(), out); },
      given);
  if ((info.events & ~TENON_ALL_EVENTS) != 0) {
    identity.fail_result("describe requested an event that this host does not have");
  }
  if (info.phase > TENON_PHASE_AFTER) {
    identity.fail_result(
        formatted("describe returned phase {}, expected one of TENON_PHASE_*", info.phase));
  }
  constexpr uint32_t kTouches = TENON_TOUCH_BATCH | TENON_TOUCH_PARAMETERS | TENON_TOUCH_GRADIENTS |
                                TENON_TOUCH_LR | TENON_TOUCH_LOSS;
  identity.check_flags(info.reads, kTouches | TENON_TOUCH_OUTPUTS, "reads");
  identity.check_flags(info.writes, kTouches, "writes");
  if (info.uses_collectives != 0 && info.rank_0_only != 0) {
    identity.fail_result(
        "describe returned uses_collectives and rank_0_only; a collective needs all ranks");
  }
  info_ = {.events = info.events,
           .phase = info.phase,
           .priority = info.priority,
           .reads = info.reads,
           .writes = info.writes,
           .rank_0_only = info.rank_0_only != 0,
           .full_parameters = info.full_parameters != 0,
           .uses_collectives = info.uses_collectives != 0};
}

}  // namespace tenon
