// SPDX-License-Identifier: Apache-2.0
//
// The hooks of a run, in order, and the firing of events. An event that no hook asked for costs one
// load and one compare, and as much again for whether it is profiled. Invariant: at `end` and
// `on_error` every hook is called, whatever the others did.
// Threads: the train thread alone.
#pragma once

#include "host/hook/event_spans.hpp"
#include "host/hook/run_view.hpp"
#include "host/plugin/hook_proxy.hpp"
#include "host/tensor/trace_span.hpp"

#include <array>
#include <memory>
#include <vector>

namespace tenon {

// Errors  hook.unordered_writers if two hooks write one thing at one event and nothing orders them
void check_writers(const std::vector<HookProxy>& hooks);

// Errors  hook.one_rank_writes if a hook writes on rank 0 alone what all of several ranks have
void check_ranks(const std::vector<HookProxy>& hooks, uint32_t world_size);

// True if a hook that is called at `event` writes one of `touches`.
bool any_writes(const std::vector<HookProxy>& hooks, uint32_t event, uint32_t touches);

class HookList {
 public:
  // `hooks` in the order of the recipe.
  HookList(std::vector<HookProxy> hooks, uint32_t rank, RunView& run);
  ~HookList() = default;
  HookList(const HookList&) = delete;
  HookList& operator=(const HookList&) = delete;

  // Where the run is: the loop keeps it up to date, events carry it.
  tenon_event& event() { return event_; }

  // Calls the hooks that asked for the event, in order. The first error ends the round and is
  // thrown, naming hook and event.
  void fire(uint32_t event) {
    if (is_tracing()) {
      fire_traced(event);
    } else if (!listeners_[event].empty()) {
      fire_to_listeners(event);
    }
  }
  // Calls all of them, last hook first; errors are logged. True if there was none. For on_error and
  // end.
  bool fire_in_reverse(uint32_t event, const std::string& message);

  // Ends the spans that a profile still shows as open.
  void close_spans() { spans_.close(); }

  const std::vector<HookProxy>& hooks() const { return hooks_; }

 private:
  void fire_to_listeners(uint32_t event);
  void fire_traced(uint32_t event);

  std::vector<HookProxy> hooks_;  // in the order they are called
  std::array<std::vector<const HookProxy*>, TENON_NUM_EVENTS> listeners_;
  tenon_event event_{};
  EventSpans spans_;
};

}  // namespace tenon
