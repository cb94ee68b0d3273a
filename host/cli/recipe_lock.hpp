// SPDX-License-Identifier: Apache-2.0
//
// Compares the plugins of a recipe with the file plugins.lock beside it, and writes that file.
// Threads: [main].
#pragma once

#include "host/plugin/registry.hpp"
#include "host/recipe/recipe.hpp"

#include <string>

namespace tenon {

enum class LockReport {
  kWarn,   // log the differences
  kSilent  // for a launcher and for all ranks except rank 0, which logs them
};

// Compares the plugins that this process has loaded for the recipe with the lock, as plugins.lock
// of the recipe says.
//
// Errors   plugin.bad_lock; plugin.lock_differs if the recipe requires the lock and a plugin
//          differs, or the lock or its entry for this recipe is missing
void check_lock(const Recipe& recipe, LockReport report);

// Warns of locked plugins of a recipe that no folder has. For a recipe that cannot be used: such a
// plugin may be the reason. A lock that cannot be read is ignored.
void warn_of_missing_plugins(const std::string& recipe_file, const PluginRegistry& registry);

// Writes the plugins that this process has loaded for the recipe to the lock, and returns a line
// that says so.
//
// Errors   plugin.bad_lock, storage.io
std::string write_lock(const Recipe& recipe);

}  // namespace tenon
