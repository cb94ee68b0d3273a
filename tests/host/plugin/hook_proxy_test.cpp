// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/hook_proxy.hpp"

#include "host/error/status.hpp"

#include "tests/host/plugin/fake_component.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

namespace {

tenon_hook_info hook_info;

tenon_hook hook_table() {
  hook_info = {sizeof(hook_info),
               TENON_EVENT_BIT(TENON_EVENT_AFTER_STEP),
               TENON_PHASE_AFTER,
               -3,
               TENON_TOUCH_LOSS,
               TENON_TOUCH_LR,
               1,
               0,
               0,
               0};
  tenon_hook table{};
  table.struct_size = sizeof(table);
  table.describe = [](void*, tenon_hook_info* out) -> tenon_status* {
    *out = hook_info;
    return nullptr;
  };
  table.on_event = [](void*, const tenon_event* event) -> tenon_status* {
    return event->id == TENON_EVENT_END ? make_status(nullptr, TENON_IO, "my.end", "the end", "", 0)
                                        : nullptr;
  };
  return table;
}

}  // namespace

TEST_CASE("a hook says what it wants and is called", "[plugin]") {
  const tenon_hook good = hook_table();
  const FakeComponent fake("hook", TENON_HOOK_ID, &good);
  const HookProxy hook(fake.make());
  CHECK(hook.wants(TENON_EVENT_AFTER_STEP));
  CHECK_FALSE(hook.wants(TENON_EVENT_END));
  CHECK(hook.info().phase == TENON_PHASE_AFTER);
  CHECK(hook.info().priority == -3);
  CHECK(hook.info().writes == TENON_TOUCH_LR);
  CHECK(hook.info().rank_0_only);
  CHECK_FALSE(hook.info().full_parameters);
  tenon_event event{};
  event.id = TENON_EVENT_AFTER_STEP;
  CHECK_NOTHROW(hook.on_event(event));
  event.id = TENON_EVENT_END;
  CHECK_THROWS_WITH(hook.on_event(event),
                    "[plugin.failed] " + fake_name("hook") + ": the end [my.end]");
}

TEST_CASE("a hook that is silent about its phase is in the normal one", "[plugin]") {
  tenon_hook silent = hook_table();
  silent.describe = [](void*, tenon_hook_info*) -> tenon_status* { return nullptr; };
  const FakeComponent fake("hook", TENON_HOOK_ID, &silent);
  const HookProxy hook(fake.make());
  CHECK(hook.info().phase == TENON_PHASE_NORMAL);
  CHECK(hook.info().events == 0);
}

TEST_CASE("a hook that lacks a function or asks for what is not there is refused", "[plugin]") {
  tenon_hook bad = hook_table();
  const FakeComponent fake("hook", TENON_HOOK_ID, &bad);
  hook_info.events = TENON_EVENT_BIT(TENON_NUM_EVENTS);
  CHECK_THAT(proxy_error<HookProxy>(fake), contains_text("an event that this host does not have"));
  hook_info.events = TENON_ALL_EVENTS;
  hook_info.phase = 3;
  CHECK_THAT(proxy_error<HookProxy>(fake), contains_text("describe returned phase 3"));
  bad.on_event = nullptr;
  CHECK(proxy_error<HookProxy>(fake) == missing_function("hook", "on_event"));
  bad.describe = nullptr;
  CHECK(proxy_error<HookProxy>(fake) == missing_function("hook", "describe"));
}
