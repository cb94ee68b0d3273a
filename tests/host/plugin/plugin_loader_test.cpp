// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/plugin_loader.hpp"

#include <algorithm>
#include <filesystem>

#include "tests/host/plugin/zoo_folder.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

namespace {

std::string id_of_error(const PluginInfo& plugin) {
  try {
    load_plugin(plugin, zoo_services());
  } catch (const Error& error) {
    return error.id();
  }
  return {};
}

}  // namespace

TEST_CASE("a plugin is loaded once, whoever asks", "[plugin]") {
  ZooFolder zoo;
  const PluginInfo plugin = inspect_plugin(zoo.add("good_c"));
  const LoadedPlugin& loaded = load_plugin(plugin, zoo_services());
  CHECK(loaded.components.size() == 2);
  CHECK(loaded.components[0].plugin == &loaded);
  CHECK(&load_plugin(plugin, zoo_services()) == &loaded);

  PluginInfo other_name = plugin;
  other_name.file = zoo.path() + "/./good_c.so";
  CHECK(&load_plugin(other_name, {}) == &loaded);
  CHECK(std::ranges::count(loaded_plugins(), &loaded) == 1);
}

TEST_CASE("a plugin that fails to load fails the same way again", "[plugin]") {
  ZooFolder zoo;
  const PluginInfo plugin = inspect_plugin(zoo.add("refuses"));
  const std::size_t num_before = loaded_plugins().size();
  CHECK(id_of_error(plugin) == "plugin.entry_failed");
  CHECK(id_of_error(plugin) == "plugin.entry_failed");
  CHECK(loaded_plugins().size() == num_before);
}

TEST_CASE("what the dynamic linker says is kept", "[plugin]") {
  ZooFolder zoo;
  CHECK(id_of_error(inspect_plugin(zoo.add("undefined_symbol"))) == "plugin.load_failed");
  const PluginInfo gone = inspect_plugin(zoo.add("good_c"));
  std::filesystem::remove(gone.file);
  CHECK(id_of_error(gone) == "plugin.load_failed");
}

TEST_CASE("shutting down calls each plugin once", "[plugin]") {
  ZooFolder zoo;
  const LoadedPlugin& loaded = load_plugin(inspect_plugin(zoo.add("good_c")), zoo_services());
  CHECK(loaded.shutdown != nullptr);
  shutdown_plugins();
  CHECK(loaded.shutdown == nullptr);
  shutdown_plugins();
}
