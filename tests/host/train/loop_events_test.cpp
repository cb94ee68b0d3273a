// SPDX-License-Identifier: Apache-2.0
#include "host/train/loop_events.hpp"

#include "tests/host/train/loop_rig.hpp"

namespace tenon {
namespace {

// The loop's events with one hook that writes what `touches` says.
struct Events {
  explicit Events(uint32_t touches) : hook{.writes = touches}, loop(run) {
    run.plan.observers.hooks = hook.proxies();
    events.emplace(loop.run, loop.view);
  }

  RunRig run;
  RecordingHook hook;
  LoopRig loop;
  std::optional<LoopEvents> events;
};

}  // namespace

TEST_CASE("events reach hooks, with their place, and whoever watches the run", "[train]") {
  Events rig(0);
  rig.events->event().step = 7;
  uint64_t step = 0;
  rig.hook.on_event = [&](const tenon_event& event) { step = event.step; };
  CHECK_FALSE(rig.run.published.event().has_value());
  rig.events->fire(TENON_EVENT_BEFORE_STEP);
  CHECK(step == 7);
  CHECK(rig.run.published.event() == TENON_EVENT_BEFORE_STEP);
  rig.events->fire_in_reverse(TENON_EVENT_END, "done");
  CHECK(rig.hook.seen == std::vector<uint32_t>{TENON_EVENT_BEFORE_STEP, TENON_EVENT_END});
  CHECK(rig.run.published.event() == TENON_EVENT_END);
  CHECK_FALSE(rig.events->rewrites_gradients());
}

TEST_CASE("what hooks write into parameters is what blocks see next", "[train]") {
  Events rig(TENON_TOUCH_PARAMETERS | TENON_TOUCH_GRADIENTS);
  CHECK(rig.events->rewrites_gradients());
  rig.hook.on_event = [&](const tenon_event&) {
    const_cast<at::Tensor*>(rig.loop.view.parameter(0).value)->fill_(5);
  };
  rig.events->fire(TENON_EVENT_AFTER_STEP);
  CHECK(rig.run.weight() == 5);
  CHECK(rig.run.model->parameters.leaf(0).item<double>() == 5);
  CHECK(rig.loop.view.whole().values.empty());
}

}  // namespace tenon
