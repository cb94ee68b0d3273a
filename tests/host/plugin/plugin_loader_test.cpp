// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/plugin_loader.hpp"

#include "host/trust/plugin_file.hpp"

#include <algorithm>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <string>

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

std::string id_of_check(const PluginFile& file, void* library) {
  try {
    file.check_loaded(library);
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

TEST_CASE("a plugin that is swapped after its folder was read is refused", "[plugin]") {
  ZooFolder zoo;
  const PluginInfo plugin = inspect_plugin(zoo.add("good_c"));
  const std::string bytes = read_text(plugin.file);
  std::filesystem::remove(plugin.file);
  zoo.write("good_c.so", bytes);  // also if the bytes are equal: nobody has compared them
  CHECK(id_of_error(plugin) == "plugin.changed");
}

TEST_CASE("a plugin other than the one that was vetted is refused", "[plugin]") {
  ZooFolder zoo;
  PluginInfo plugin = inspect_plugin(zoo.add("good_c"));
  plugin.hash = "sha256:" + std::string(64, '0');
  CHECK(id_of_error(plugin) == "plugin.changed");

  PluginInfo vetted = inspect_plugin(zoo.add("good_c", "vetted"));
  vetted.hash = PluginFile(vetted.file, "").hash();
  CHECK(load_plugin(vetted, zoo_services()).hash == vetted.hash);
}

// glibc keeps the names of libraries: the files stay open to the end of the test program.
TEST_CASE("a plugin that is swapped while it is loaded is refused", "[plugin]") {
  ZooFolder zoo;
  const std::string path = zoo.add("good_c");
  const auto& opened = *new PluginFile(path, "the plugin");
  std::filesystem::rename(zoo.add("good_c", "other"), path);
  void* const other = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(other != nullptr);
  CHECK(id_of_check(opened, other) == "plugin.changed");

  const std::string again = zoo.add("good_c", "again");
  const auto& same = *new PluginFile(again, "the plugin");
  void* const library = ::dlopen(again.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  CHECK(id_of_check(same, library).empty());
  CHECK(id_of_check(same, other) == "plugin.changed");
  std::ofstream(again, std::ios::app) << "x";  // the same file, with other bytes
  CHECK(id_of_check(same, library) == "plugin.changed");
}

TEST_CASE("shutting down calls each plugin once", "[plugin]") {
  ZooFolder zoo;
  const LoadedPlugin& loaded = load_plugin(inspect_plugin(zoo.add("good_c")), zoo_services());
  CHECK(loaded.shutdown != nullptr);
  shutdown_plugins();
  CHECK(loaded.shutdown == nullptr);
  shutdown_plugins();
}
