// SPDX-License-Identifier: Apache-2.0
//
// Whether a run may resume with the present plugins from a checkpoint that others wrote: a function
// of two lists. Each component checks itself whether its saved state fits. Threads: every function
// may be called from any thread.
#pragma once

#include "host/recipe/recipe_difference.hpp"

#include <span>
#include <string>
#include <vector>

namespace tenon {

struct UsedPlugin {
  std::string id;
  std::string version;  // "1.2.3"
  std::string hash;     // of the file's bytes; "" where it is not known
};

struct PluginChange {
  std::string id;
  ChangeClass change = ChangeClass::kFree;
  std::string what;  // "org.x is version 2.0.0, and was 1.4.0"
};

// In the order of ids. Another major version is refused, and below 1.0 another minor version.
// Another version, or other bytes of one version, warn. A new or removed plugin is free: the recipe
// says which plugins are used.
std::vector<PluginChange> plugin_changes(std::span<const UsedPlugin> before,
                                         std::span<const UsedPlugin> now);

// Errors  resume.plugin_changed with the refused changes, if there are any
void refuse_changes(std::span<const PluginChange> changes, const std::string& checkpoint);

}  // namespace tenon
