// SPDX-License-Identifier: Apache-2.0
#include "host/cli/recipe_lock.hpp"

#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/plugin/plugin_loader.hpp"
#include "host/text/counted.hpp"
#include "host/text/joined.hpp"
#include "host/trust/trust.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

namespace tenon {
namespace {

std::vector<UsedPluginFile> plugins_in_use() {
  std::vector<UsedPluginFile> used;
  for (const LoadedPlugin* const plugin : loaded_plugins()) {
    const PluginContext& context = plugin->host.context();
    UsedPluginFile& one = used.emplace_back(UsedPluginFile{.id = context.id,
                                                           .version = context.version,
                                                           .hash = plugin->hash,
                                                           .file = context.file,
                                                           .components = {}});
    for (const LoadedComponent& component : plugin->components) {
      one.components.push_back(component.kind + ":" + component.type);
    }
  }
  return used;
}

std::string lock_name_of(const std::string& recipe_file) {
  return std::filesystem::path(recipe_file).filename().string();
}

// Why the plugins are not those of the lock, with advice; "" if they are.
std::string lock_problem_of(const Recipe& recipe,
                            const std::string& file,
                            const std::optional<PluginLock>& lock) {
  const std::string advice = "; write it: --recipe " + recipe.file + " --lock";
  if (!lock) {
    return recipe.lock == LockUse::kRequire ? recipe.file + ": plugins.lock is \"require\", and " +
                                                  file + " does not exist" + advice
                                            : "";
  }
  if (!is_locked(*lock, lock_name_of(recipe.file))) {
    return file + " has no entry for " + lock_name_of(recipe.file) + advice;
  }
  const std::vector<std::string> differences =
      lock_differences(*lock, lock_name_of(recipe.file), plugins_in_use());
  return differences.empty()
             ? ""
             : "the plugins differ from " + file + ": " + joined(differences, "; ") +
                   "; use the locked files, or accept these: --recipe " + recipe.file + " --lock";
}

}  // namespace

void check_lock(const Recipe& recipe, LockReport report) {
  if (recipe.lock == LockUse::kIgnore) {
    return;
  }
  const std::string file = lock_file_of(recipe.file);
  const std::string problem = lock_problem_of(recipe, file, read_plugin_lock(file));
  if (problem.empty()) {
    return;
  }
  if (recipe.lock == LockUse::kRequire) {
    throw Error("plugin.lock_differs", problem);
  }
  if (report == LockReport::kWarn) {
    log_warning(problem);
  }
}

void warn_of_missing_plugins(const std::string& recipe_file, const PluginRegistry& registry) {
  const std::string file = lock_file_of(recipe_file);
  std::optional<PluginLock> lock;
  try {
    lock = read_plugin_lock(file);
  } catch (const Error& error) {  // the recipe's own error matters more
    log_debug(error.what());
  }
  if (!lock) {
    return;
  }
  for (const LockedPlugin& plugin : lock->plugins) {
    const bool is_used =
        std::ranges::find(plugin.recipes, lock_name_of(recipe_file)) != plugin.recipes.end();
    if (is_used && registry.find_plugin(plugin.id) == nullptr) {
      log_warning(file + " has " + plugin.id + " " + plugin.version + " (" + plugin.file +
                  "), which is not in " + registry.describe_folders());
    }
  }
}

std::string write_lock(const Recipe& recipe) {
  const std::string file = lock_file_of(recipe.file);
  const std::vector<UsedPluginFile> used = plugins_in_use();
  write_plugin_lock(
      file,
      lock_with(read_plugin_lock(file).value_or(PluginLock{}), lock_name_of(recipe.file), used));
  return "wrote " + counted(used.size(), "plugin") + " to " + file + "\n";
}

}  // namespace tenon
