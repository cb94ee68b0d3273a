// SPDX-License-Identifier: Apache-2.0

#include "host/tools/inspect/plugin_list.hpp"

#include "host/terminal/text_table.hpp"

#include <nlohmann/json.hpp>

#include <set>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

// "found" rather than "usable": a plugin with a valid manifest may still crash while it is loaded.
std::string state_of(const PluginInfo& plugin) {
  if (plugin.refusal) {
    return "refused";
  }
  return plugin.same_as.empty() ? "found" : "copy";
}

std::string component_list(const Manifest& manifest) {
  std::string text;
  for (const ComponentName& component : manifest.components) {
    text += (text.empty() ? "" : ", ") + component.kind + ":" + component.type;
  }
  return text;
}

}  // namespace

std::string plugin_table(std::span<const PluginInfo> plugins,
                         std::span<const PluginFolder> folders) {
  if (plugins.empty()) {
    std::string text;
    for (const PluginFolder& folder : folders) {
      text += (text.empty() ? "no plugin in " : ", ") + folder.path + " (" + folder.origin + ")";
    }
    return text + "\n";
  }
  std::vector<std::vector<std::string>> rows = {
      {"STATE", "PLUGIN", "VERSION", "LANE", "FILE", "COMPONENTS"}};
  std::string reasons;
  std::set<std::string> told;  // two files with the same id are refused for the same reason
  for (const PluginInfo& plugin : plugins) {
    const Manifest& manifest = plugin.manifest;
    rows.push_back({state_of(plugin),
                    manifest.id.empty() ? "?" : manifest.id,
                    manifest.version.empty() ? "?" : manifest.version,
                    manifest.lane.empty() ? "?" : manifest.lane,
                    plugin.file,
                    component_list(manifest)});
    if (plugin.refusal && told.insert(plugin.refusal->what()).second) {
      reasons += std::string("refused: ") + plugin.refusal->what() + "\n";
    } else if (!plugin.same_as.empty()) {
      reasons += "copy: " + plugin.file + " holds the same bytes as " + plugin.same_as +
                 ", which is used\n";
    }
  }
  return text_table(rows) + (reasons.empty() ? "" : "\n") + reasons;
}

std::string plugin_list_json(std::span<const PluginInfo> plugins) {
  Json list = Json::array();
  for (const PluginInfo& plugin : plugins) {
    const Manifest& manifest = plugin.manifest;
    Json components = Json::array();
    for (const ComponentName& component : manifest.components) {
      components.push_back({{"kind", component.kind}, {"type", component.type}});
    }
    Json error;
    if (plugin.refusal) {
      error = {{"id", plugin.refusal->id()}, {"message", plugin.refusal->message()}};
    }
    list.push_back({{"id", manifest.id},
                    {"version", manifest.version},
                    {"abi", manifest.abi.text()},
                    {"lane", manifest.lane},
                    {"torch", manifest.torch},
                    {"components", std::move(components)},
                    {"requires", manifest.services},
                    {"file", plugin.file},
                    {"state", state_of(plugin)},
                    {"same_as", plugin.same_as.empty() ? Json() : Json(plugin.same_as)},
                    {"error", std::move(error)}});
  }
  // File names may be invalid UTF-8.
  return list.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tenon
