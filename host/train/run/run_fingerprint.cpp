// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/run_fingerprint.hpp"

#include "host/plugin/plugin_loader.hpp"

#include <c10/core/DeviceType.h>
#include <nlohmann/json.hpp>

#include <string>
#include <tenon_build.hpp>

namespace tenon {

std::vector<Fact> run_fingerprint(const Recipe& recipe, c10::Device device) {
  nlohmann::json text = nlohmann::json::parse(frozen_recipe(recipe));
  text.erase("threads");
  std::vector<Fact> metadata = {
      {"recipe", text.dump()},
      {"host", kVersion},
      {"libtorch", std::string(kTorchVersion) + " (" + kTorchFingerprint + ")"},
      {"device", c10::DeviceTypeName(device.type(), true)}};
  for (const LoadedPlugin* plugin : loaded_plugins()) {
    const PluginContext& context = plugin->host.context();
    // By id instead of path: paths may differ between machines.
    metadata.push_back({"plugin " + context.id, context.version + " (" + plugin->hash + ")"});
  }
  return metadata;
}

}  // namespace tenon
