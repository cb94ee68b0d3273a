// SPDX-License-Identifier: Apache-2.0

#include "host/recipe/plugin_difference.hpp"

#include "host/error/error.hpp"

#include <map>
#include <string_view>
#include <utility>

namespace tenon {
namespace {

// The part of a version that must not change: "2" of "2.1.0", and "0.3" of "0.3.1".
std::string_view lasting_part(std::string_view version) {
  const std::size_t dot = version.find('.');
  if (version.substr(0, dot) != "0" || dot == std::string_view::npos) {
    return version.substr(0, dot);
  }
  return version.substr(0, version.find('.', dot + 1));
}

}  // namespace

std::vector<PluginChange> plugin_changes(std::span<const UsedPlugin> before,
                                         std::span<const UsedPlugin> now) {
  std::map<std::string, std::pair<const UsedPlugin*, const UsedPlugin*>> by_id;
  for (const UsedPlugin& plugin : before) {
    by_id[plugin.id].first = &plugin;
  }
  for (const UsedPlugin& plugin : now) {
    by_id[plugin.id].second = &plugin;
  }
  std::vector<PluginChange> changes;
  for (const auto& [id, sides] : by_id) {
    const auto [was, is] = sides;
    if (was == nullptr || is == nullptr) {
      changes.push_back(
          {id, ChangeClass::kFree, id + (is != nullptr ? " is new" : " is no longer used")});
    } else if (was->version != is->version) {
      const bool lasts = lasting_part(was->version) == lasting_part(is->version);
      changes.push_back({id,
                         lasts ? ChangeClass::kWarns : ChangeClass::kRefused,
                         id + ": version changed from " + was->version + " to " + is->version});
    } else if (was->hash != is->hash && !was->hash.empty() && !is->hash.empty()) {
      changes.push_back(
          {id,
           ChangeClass::kWarns,
           id + " " + is->version + ": file changed (hash " + was->hash + " to " + is->hash + ")"});
    }
  }
  return changes;
}

void refuse_changes(std::span<const PluginChange> changes, const std::string& checkpoint) {
  std::string refused;
  for (const PluginChange& change : changes) {
    if (change.change == ChangeClass::kRefused) {
      refused += "refused  " + change.what + "\n";
    }
  }
  if (!refused.empty()) {
    throw Error(
        "resume.plugin_changed",
        "the plugins are incompatible with " + checkpoint + ":\n" + refused +
            "use the plugins of the checkpoint; its index.json has their versions and hashes");
  }
}

}  // namespace tenon
