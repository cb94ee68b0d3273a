// SPDX-License-Identifier: Apache-2.0
//
// The hooks of a run, in order; fires events. An event without hooks costs one load and one
// compare, and the same again to check whether a profile is recording.
// Invariant: at `end` and `on_error`, every subscribed hook is called, even if other hooks fail.
// Threads: the train thread alone.
#pragma once

#include "host/hook/run_view.hpp"
#include "host/plugin/hook_proxy.hpp"
#include "host/tensor/exec_frame.hpp"

#include <array>
#include <deque>
#include <memory>
#include <vector>

namespace tenon {

// Errors  hook.unordered_writers if two hooks write the same state at the same event, and neither
//         phase nor priority orders them
void check_writers(const std::vector<HookProxy>& hooks);

// Errors  hook.one_rank_writes if there are several ranks and a hook writes on rank 0 only
void check_ranks(const std::vector<HookProxy>& hooks, uint32_t num_ranks);

// Returns true if a hook that is called at `event` writes one of `touches` (TENON_TOUCH_*).
bool any_writes(const std::vector<HookProxy>& hooks, uint32_t event, uint32_t touches);

class HookList {
 public:
  // `hooks` are in the order of the recipe; `exec` is that of the run.
  HookList(std::vector<HookProxy> hooks, uint32_t rank, RunView& run, const ExecBase& exec);
  ~HookList() = default;
  HookList(const HookList&) = delete;
  HookList& operator=(const HookList&) = delete;

  // The fields of events, such as the step; the loop keeps them up to date.
  tenon_event& event() { return event_; }

  // Calls the hooks that subscribe to the event, in order. Stops at the first error, and throws it
  // with the names of the hook and the event.
  void fire(uint32_t event) {
    if (!listeners_[event].empty()) {
      fire_to_listeners(event);
    }
  }
  // Calls all hooks that subscribe to the event, last hook first, and logs errors; for on_error and
  // end. Returns true if there were no errors.
  bool fire_in_reverse(uint32_t event, const std::string& message);

  const std::vector<HookProxy>& hooks() const { return hooks_; }

 private:
  struct Listener {
    const HookProxy* hook;
    ExecFrame* frame;
  };
  void fire_to_listeners(uint32_t event);
  void call(const Listener& listener);

  std::vector<HookProxy> hooks_;  // in the order they are called
  std::deque<ExecFrame> frames_;  // of each hook
  std::array<std::vector<Listener>, TENON_NUM_EVENTS> listeners_;
  RunView& run_;
  tenon_event event_{};
};

}  // namespace tenon
