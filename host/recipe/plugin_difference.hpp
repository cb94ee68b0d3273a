// SPDX-License-Identifier: Apache-2.0
//
// Whether a run may go on with the plugins that are there, of a checkpoint that others have
// written: a function of two lists. Whether a state fits is for its component to say.
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
  std::string hash;     // of the file's bytes; "" where it is not known
};

struct PluginChange {
  std::string id;
  ChangeClass change = ChangeClass::kFree;
  std::string what;  // "org.x is version 2.0.0, and was 1.4.0"
};

// In the order of ids. Another major version is refused (below 1.0 another minor one, which is what
// may break then), another version or other bytes of one warn; a plugin that came or went is free:
// the recipe says what is used.
std::vector<PluginChange> plugin_changes(std::span<const UsedPlugin> before,
                                         std::span<const UsedPlugin> now);

// Errors  resume.plugin_changed with those that are refused, if any is
void refuse_changes(std::span<const PluginChange> changes, const std::string& checkpoint);

}  // namespace tenon
