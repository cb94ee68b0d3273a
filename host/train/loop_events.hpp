// SPDX-License-Identifier: Apache-2.0
//
// The events of the loop: hooks are called, and whoever watches the run is told which event it is.
// A hook that asks for whole parameters gets them on all ranks; what hooks write into parameters or
// gradients goes to the slices that ranks keep.
// Invariant: the order of collectives follows from what hooks declare, never from what they do.
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
  // `hooks` in the order of the recipe; the rest is borrowed.
  LoopEvents(std::vector<HookProxy> hooks,
             uint32_t rank,
             HookView& view,
             ParameterStore& parameters,
             ShardedParameters& flow,
             PublishedState& published);

  // Calls the hooks that asked for the event.  Errors  as HookList::fire
  void fire(uint32_t event) {
    published_.set_event(event);
    if (((parameter_writes_ | whole_parameters_) & TENON_EVENT_BIT(event)) != 0) {
      fire_with_parameters(event);
    } else {
      hooks_.fire(event);
    }
  }
  // The same of on_error and end: last hook first, and no error is thrown.
  void fire_in_reverse(uint32_t event, const std::string& message);

  // What events carry; the loop keeps it up to date.
  tenon_event& place() { return hooks_.event(); }
  // True if a hook rewrites gradients once they are final.
  bool rewrites_gradients() const { return rewrites_gradients_; }
  // Ends the spans that a profile still shows as open.
  void close_spans() { hooks_.close_spans(); }

 private:
  void fire_with_parameters(uint32_t event);

  HookView& view_;
  ParameterStore& parameters_;
  ShardedParameters& flow_;
  PublishedState& published_;
  HookList hooks_;
  uint64_t parameter_writes_ = 0;  // TENON_EVENT_BIT of events at which a hook writes parameters
  uint64_t whole_parameters_ = 0;  // and at which one asks for them as a whole
  bool rewrites_gradients_ = false;
};

}  // namespace tenon
