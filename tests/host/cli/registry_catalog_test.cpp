// SPDX-License-Identifier: Apache-2.0
#include "host/cli/registry_catalog.hpp"

#include "host/error/error.hpp"

#include "tests/host/plugin/zoo_folder.hpp"
#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("a component that one plugin offers is one entry with its schema", "[cli]") {
  ZooFolder zoo;
  zoo.add("good_c");
  PluginRegistry registry(zoo.setup());
  const RegistryCatalog catalog(registry);
  const auto entries = catalog.find("loss", "half_square");
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].plugin_id == "org.tenon.zoo.good_c");
  CHECK(entries[0].file == zoo.path_of("good_c"));
  CHECK_THAT(entries[0].schema, contains_text("\"scale\""));
  CHECK(catalog.types_of("hook") == std::vector<std::string>{"step_counter"});
  CHECK(catalog.searched() == zoo.path() + " (--plugin-dir)");
}

TEST_CASE("a component that nobody offers is no entry", "[cli]") {
  ZooFolder zoo;
  zoo.add("good_c");
  PluginRegistry registry(zoo.setup());
  const RegistryCatalog catalog(registry);
  CHECK(catalog.find("loss", "other").empty());
  CHECK(catalog.find("model", "half_square").empty());
  CHECK(catalog.find("loss", "org.other/half_square").empty());
  CHECK(catalog.types_of("model").empty());
}

TEST_CASE("a component that two plugins offer is two entries", "[cli]") {
  ZooFolder zoo;
  zoo.add("same_type_1");
  zoo.add("same_type_2");
  PluginRegistry registry(zoo.setup());
  const RegistryCatalog catalog(registry);
  const auto entries = catalog.find("loss", "half_square");
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].plugin_id == "org.tenon.zoo.same_type_1");
  CHECK(entries[1].file == zoo.path_of("same_type_2"));
  CHECK(catalog.find("loss", "org.tenon.zoo.same_type_1/half_square").size() == 1);
}

TEST_CASE("a component of a refused plugin is the error it was refused with", "[cli]") {
  ZooFolder zoo;
  zoo.add("crashes_in_entry");
  PluginRegistry registry(zoo.setup());
  const RegistryCatalog catalog(registry);
  try {
    (void)catalog.find("loss", "zoo");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.id() == "plugin.crashed");
    CHECK(error.exit_code() == ExitCode::kPlugin);
    CHECK(error.message().rfind("the recipe needs loss \"zoo\": " + zoo.path(), 0) == 0);
  }
}

}  // namespace tenon
