// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/loaded_plugin.hpp"

namespace tenon {

std::string LoadedComponent::describe() const {
  const PluginContext& context = plugin->host.context();
  const std::string name = "plugin " + context.id + " " + context.version;
  return kind.empty() ? name + " (" + context.file + ")"
                      : kind + " \"" + type + "\" (" + name + ", " + context.file + ")";
}

}  // namespace tenon
