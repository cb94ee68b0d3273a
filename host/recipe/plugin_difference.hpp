// SPDX-License-Identifier: Apache-2.0
//
// Decides whether a run may resume with the present plugins from a checkpoint that other plugins
// wrote, from the two lists of plugins. Each component checks its saved state itself.
// Threads: every function may be called from any thread.
#pragma once

#include "host/recipe/recipe_difference.hpp"

#include <span>
#include <string>
#include <vector>

namespace tenon {

struct UsedPlugin {
  std::string id;
  std::string version;  // "1.2.3"
  std::string hash;     // hash of the file's bytes; "" if unknown
};

struct PluginChange {
  std::string id;
  ChangeClass change = ChangeClass::kFree;
  std::string what;  // "org.x: version changed from 1.4.0 to 2.0.0"
};

// Returns the changes in the order of ids. Refused: another major version or, below 1.0, another
// minor version. Warns: any other change of version, or a changed file of the same version. Free: a
// new or removed plugin, because the recipe defines which plugins are used.
std::vector<PluginChange> plugin_changes(std::span<const UsedPlugin> before,
                                         std::span<const UsedPlugin> now);

// Throws if a change is refused. `checkpoint` is for the message.
//
// Errors  resume.plugin_changed with the refused changes
void refuse_changes(std::span<const PluginChange> changes, const std::string& checkpoint);

}  // namespace tenon
