// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/stateful_proxy.hpp"

#include "host/plugin/hook_proxy.hpp"
#include "host/tensor/state/state_bridge.hpp"

#include "tests/host/plugin/fake_component.hpp"
#include "tests/host/plugin/zoo_folder.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

TEST_CASE("a hook's state goes out and comes back", "[plugin]") {
  ZooFolder zoo;
  zoo.add("good_c");
  PluginRegistry registry(zoo.setup());
  const LoadedComponent& component = registry.get("hook", "step_counter");
  HookProxy hook(ComponentInstance::create(component, {}));
  const std::optional<StatefulProxy> state = StatefulProxy::of(hook.instance());
  REQUIRE(state);
  // The instance may move; what was asked of it stays.
  const HookProxy moved = std::move(hook);
  tenon_event event{};
  event.id = TENON_EVENT_AFTER_STEP;
  for (int i = 0; i < 3; ++i) {
    moved.on_event(event);
  }
  StateTree tree;
  StateWriter writer(tree, "hooks/0", state->version(), nullptr);
  state->snapshot(*writer.abi());
  CHECK(tree.get_int("hooks/0/num_steps") == 3);
  CHECK(state->identity().component().type == "step_counter");

  const HookProxy other(ComponentInstance::create(component, {}));
  StateReader reader(tree, "hooks/0", nullptr);
  StatefulProxy::of(other.instance())->load(*reader.abi());
  other.on_event(event);
  StateTree again;
  StateWriter second(again, "hooks/0", 1, nullptr);
  StatefulProxy::of(other.instance())->snapshot(*second.abi());
  CHECK(again.get_int("hooks/0/num_steps") == 4);

  StateTree later;
  StateWriter of_later_version(later, "hooks/0", 2, nullptr);
  state->snapshot(*of_later_version.abi());
  StateReader wrong(later, "hooks/0", nullptr);
  CHECK_THROWS_WITH(state->load(*wrong.abi()),
                    contains_text("only version 1 can be read [zoo.version]"));
}

TEST_CASE("an instance without state has no proxy for it", "[plugin]") {
  const tenon_hook table{};
  const FakeComponent fake("hook", TENON_HOOK_ID, &table);
  const ComponentInstance instance = fake.make();
  CHECK_FALSE(StatefulProxy::of(instance));
}

TEST_CASE("a state without all of its functions is refused by name", "[plugin]") {
  static tenon_stateful state;
  state = {};
  state.struct_size = sizeof(state);
  state.version = [](void*) { return 1u; };
  const tenon_hook table{};
  FakeComponent fake("hook", TENON_HOOK_ID, &table);
  fake.descriptor.get_extension = [](void*, const char*) -> const void* { return &state; };
  const ComponentInstance instance = fake.make();
  CHECK_THROWS_WITH(StatefulProxy::of(instance),
                    "[plugin.missing_interface] " + fake_name("hook") +
                        " offers tenon.stateful/1 without its function \"snapshot\"; set it in the "
                        "registered table");
}
