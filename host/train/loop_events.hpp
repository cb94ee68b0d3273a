// SPDX-License-Identifier: Apache-2.0
//
// Fires the events of the loop: calls hooks, and publishes the current event to observers of the
// run. If a hook asks for whole parameters, all ranks gather them. Values that hooks write into
// whole parameters or gradients are copied to the shards.
// Invariant: the order of collectives depends on what hooks declare, never on what they do.
// Threads: the train thread.
#pragma once

#include "host/hook/hook_list.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/train/hook_view.hpp"
#include "host/train/run_state/published_state.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

class LoopEvents {
 public:
  // Both are borrowed. Copies the hooks of the plan.
  LoopEvents(RunServices& run, HookView& view);

  // Calls the hooks that subscribe to the event.
  // Errors  as HookList::fire
  void fire(uint32_t event) {
    run_.report.journal.add(EventBegan{event, hooks_.event().step});
    if (((parameter_writes_ | whole_parameters_) & TENON_EVENT_BIT(event)) != 0) {
      fire_with_parameters(event);
    } else {
      hooks_.fire(event);
    }
    run_.report.journal.add(EventEnded{event, hooks_.event().step});
  }
  // Like fire(), for on_error and end: calls the last hook first, and throws no error.
  void fire_in_reverse(uint32_t event, const std::string& message);

  // The fields of events; the loop keeps them up to date.
  tenon_event& event() { return hooks_.event(); }
  // True if a hook changes final gradients.
  bool rewrites_gradients() const { return rewrites_gradients_; }
  // True if a hook, on any rank, reads the loss of each step over all ranks.
  bool reads_step_loss() const { return reads_step_loss_; }
  // True if a hook is called during evaluations, before their metrics are recorded, and so may add
  // metrics to them.
  bool any_in_evaluations() const { return any_in_evaluations_; }

 private:
  void fire_with_parameters(uint32_t event);

  RunServices& run_;
  HookView& view_;
  HookList hooks_;
  uint64_t parameter_writes_ = 0;  // TENON_EVENT_BIT of events at which a hook writes parameters
  uint64_t whole_parameters_ = 0;  // and at which a hook asks for whole parameters
  bool rewrites_gradients_ = false;
  bool reads_step_loss_ = false;
  bool any_in_evaluations_ = false;
};

}  // namespace tenon
