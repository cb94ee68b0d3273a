// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/instance.hpp"

#include <tenon/loss.h>

#include "tests/host/plugin/fake_component.hpp"
#include "tests/host/plugin/zoo_folder.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

namespace {

const tenon_loss kNoTable{};

PluginError failure_of(const ComponentInstance& instance, tenon_status* status) {
  try {
    instance.check(status);
  } catch (const PluginError& error) {
    return error;
  }
  throw std::logic_error("it was no failure");
}

}  // namespace

TEST_CASE("an instance is created once and destroyed once", "[plugin]") {
  FakeComponent fake("loss", TENON_LOSS_ID, &kNoTable);
  {
    ComponentInstance one = fake.make({.place = "/loss"});
    CHECK(one.kind() == "loss");
    CHECK(one.type() == "fake");
    CHECK(one.place() == "/loss");
    CHECK(one.plugin().version == "1.2.3");
    CHECK(plugin_of(one.host()).id == "org.tenon.fake");
    ComponentInstance two = std::move(one);
    CHECK(two.self() == &fake);
    ComponentInstance three = fake.make();
    three = std::move(two);
    CHECK(three.place() == "/loss");
    CHECK(fake.num_created == 2);
  }
  CHECK(fake.num_destroyed == 2);
}

TEST_CASE("an error of create leaves nothing to destroy", "[plugin]") {
  FakeComponent fake("loss", TENON_LOSS_ID, &kNoTable);
  fake.create_status = make_status(nullptr, TENON_INVALID, "my.id", "no", "/src/fake.cpp", 3);
  CHECK_THROWS_AS(fake.make(), PluginError);
  CHECK(fake.num_destroyed == 0);
}

TEST_CASE("a failure names component, plugin, version, file and place", "[plugin]") {
  FakeComponent fake("loss", TENON_LOSS_ID, &kNoTable);
  const ComponentInstance instance = fake.make();
  CHECK_NOTHROW(instance.check(nullptr));
  const PluginError error = failure_of(
      instance,
      make_status(
          nullptr, TENON_INVALID, "my.id", "labels must be [B, T], got [4]", "/x/fake.cpp", 41));
  CHECK(error.what() == std::string("[plugin.failed] loss \"fake\" (plugin org.tenon.fake 1.2.3, "
                                    "build/fake.so): labels must be [B, T], got [4] [my.id] at "
                                    "fake.cpp:41"));
  CHECK(error.code() == TENON_INVALID);
  CHECK(error.status_id() == "my.id");
  CHECK(error.exit_code() == ExitCode::kPlugin);

  const PluginError bare = failure_of(instance, make_status(nullptr, TENON_IO, "", "", "", 0));
  CHECK(bare.message() ==
        "loss \"fake\" (plugin org.tenon.fake 1.2.3, build/fake.so): the call "
        "failed without a message");
}

TEST_CASE("an error of the host that a plugin passes on keeps its id", "[plugin]") {
  FakeComponent fake("loss", TENON_LOSS_ID, &kNoTable);
  const ComponentInstance instance = fake.make();
  const PluginError error = failure_of(
      instance, make_status(nullptr, TENON_INVALID, "plugin.bad_result", "no labels", "", 0));
  CHECK(error.id() == "plugin.bad_result");
  CHECK(error.message() == "loss \"fake\" (plugin org.tenon.fake 1.2.3, build/fake.so): no labels");
}

TEST_CASE("an instance without extensions has none", "[plugin]") {
  FakeComponent fake("loss", TENON_LOSS_ID, &kNoTable);
  CHECK(fake.make().extension("tenon.stateful/1") == nullptr);
  fake.descriptor.get_extension = [](void* self, const char* id) -> const void* {
    return std::string(id) == "mine/1" ? self : nullptr;
  };
  CHECK(fake.make().extension("mine/1") == &fake);
  CHECK(fake.make().extension("mine/2") == nullptr);
  // An older plugin's descriptor ends before the pointer.
  fake.descriptor.struct_size = offsetof(tenon_component, get_extension);
  CHECK(fake.make().extension("mine/1") == nullptr);
}

TEST_CASE("what a plugin's create is given reaches it", "[plugin]") {
  ZooFolder zoo;
  zoo.add("good_c");
  PluginRegistry registry(zoo.setup());
  const LoadedComponent& loss = registry.get("loss", "half_square");
  CHECK(ComponentInstance::create(loss, {.options_json = "{\"scale\": 2}"}).self() != nullptr);
  try {
    ComponentInstance::create(loss, {.options_json = "{\"scale\": 13}"});
    FAIL("it was taken");
  } catch (const PluginError& error) {
    CHECK_THAT(error.what(),
               contains_text("[plugin.failed] loss \"half_square\" (plugin org.tenon.zoo.good_c "
                             "1.0.0, " +
                             zoo.path_of("good_c") +
                             "): a scale of 13 brings bad luck [zoo.unlucky] at good_c.c:"));
  }
  // The options service's own error passes through the plugin.
  try {
    ComponentInstance::create(loss, {.options_json = "{}"});
    FAIL("it was taken");
  } catch (const PluginError& error) {
    CHECK(error.code() == TENON_NOT_FOUND);
    CHECK_THAT(error.message(), contains_text("option \"/scale\" of loss \"half_square\""));
  }
}
