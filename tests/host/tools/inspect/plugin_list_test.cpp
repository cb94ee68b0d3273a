// SPDX-License-Identifier: Apache-2.0
#include "host/tools/inspect/plugin_list.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

PluginInfo plugin(const std::string& id, const std::string& file) {
  PluginInfo info{
      .file = file, .manifest = {}, .refusal = std::nullopt, .details = {}, .same_as = {}};
  info.manifest = {.id = id,
                   .version = "1.2.0",
                   .abi = {.major = 0, .min_minor = 4, .max_minor = 5},
                   .lane = "stable",
                   .torch = "",
                   .components = {{"loss", "focal"}, {"hook", "watch"}},
                   .services = {"tenon.op/1"}};
  return info;
}

std::vector<PluginInfo> three_plugins() {
  std::vector<PluginInfo> plugins = {plugin("com.example.focal", "p/focal.so"),
                                     plugin("com.example.focal", "q/focal.so"),
                                     plugin("", "p/cut.so")};
  plugins[1].same_as = "p/focal.so";
  plugins[2].manifest = {};
  plugins[2].refusal = Error("plugin.bad_manifest", "p/cut.so cannot be understood");
  return plugins;
}

}  // namespace

TEST_CASE("the list of plugins is a table with the reasons below", "[cli]") {
  CHECK(plugin_table(three_plugins(), {}) ==
        "STATE    PLUGIN             VERSION  LANE    FILE        COMPONENTS\n"
        "found    com.example.focal  1.2.0    stable  p/focal.so  loss:focal, hook:watch\n"
        "copy     com.example.focal  1.2.0    stable  q/focal.so  loss:focal, hook:watch\n"
        "refused  ?                  ?        ?       p/cut.so\n"
        "\n"
        "copy: q/focal.so holds the same bytes as p/focal.so, which is used\n"
        "refused: [plugin.bad_manifest] p/cut.so cannot be understood\n");
}

TEST_CASE("folders without a plugin are named", "[cli]") {
  const std::vector<PluginFolder> folders = {{"a", "--plugin-dir"}, {"b", "TENON_PLUGIN_PATH"}};
  CHECK(plugin_table({}, folders) == "no plugin in a (--plugin-dir), b (TENON_PLUGIN_PATH)\n");
}

TEST_CASE("one reason that refuses two files is told once", "[cli]") {
  std::vector<PluginInfo> plugins = {plugin("x.y", "a.so"), plugin("x.y", "b.so")};
  plugins[0].refusal = plugins[1].refusal = Error("plugin.duplicate_id", "both carry x.y");
  const std::string table = plugin_table(plugins, {});
  CHECK(table.find("both carry") == table.rfind("both carry"));
}

TEST_CASE("the JSON list has every key of every plugin, in one order", "[cli]") {
  const auto list = nlohmann::ordered_json::parse(plugin_list_json(three_plugins()));
  REQUIRE(list.size() == 3);
  for (const auto& entry : list) {
    std::string keys;
    for (const auto& [key, value] : entry.items()) {
      keys += key + " ";
    }
    CHECK(keys == "id version abi lane torch components requires file state same_as error ");
  }
  CHECK(list[0]["state"] == "found");
  CHECK(list[0]["error"].is_null());
  CHECK(list[0]["same_as"].is_null());
  CHECK(list[0]["components"][0]["kind"] == "loss");
  CHECK(list[0]["components"][0]["type"] == "focal");
  CHECK(list[0]["abi"] == "0.4..0.5");
  CHECK(list[0]["requires"] == nlohmann::ordered_json::array({"tenon.op/1"}));
  CHECK(list[2]["abi"] == "");
  CHECK(list[2]["requires"] == nlohmann::ordered_json::array());
  CHECK(list[1]["same_as"] == "p/focal.so");
  CHECK(list[2]["error"]["id"] == "plugin.bad_manifest");
  CHECK(list[2]["error"]["message"] == "p/cut.so cannot be understood");
  CHECK(plugin_list_json({}) == "[]\n");
}

TEST_CASE("a name of a file that is not UTF-8 does not end the list", "[cli]") {
  const std::vector<PluginInfo> plugins = {plugin("x.y", "\xff.so")};
  CHECK(nlohmann::json::parse(plugin_list_json(plugins)).size() == 1);
}

TEST_CASE("plugins that were built are listed from their manifests", "[cli]") {
  const std::vector<PluginFolder> folders = {{test_plugin_dir().string(), "--plugin-dir"}};
  const std::string table = plugin_table(scan_plugins(folders), folders);
  CHECK_THAT(table, contains_text("org.tenon.test.plain_loss"));
  CHECK_THAT(table, contains_text("loss:plain_loss"));
}

}  // namespace tenon
