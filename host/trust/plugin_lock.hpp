// SPDX-License-Identifier: Apache-2.0
//
// The file plugins.lock beside recipes: which plugin files the recipes of a folder were used with.
// Not for security: a lock finds plugins that differ, and vetting has run their code by then
// (trusted_keys.hpp).
// Threads: [main].
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

// A plugin that a recipe uses now.
struct UsedPluginFile {
  std::string id;
  std::string version;
  std::string hash;                     // content_hash() of the file that is loaded
  std::string file;                     // "build/plugins/mse.so"
  std::vector<std::string> components;  // "loss:mse", in the order of the manifest
};

struct LockedPlugin {
  std::string id;
  std::string version;
  std::string sha256;                   // of the file, 64 hexadecimal digits
  std::string file;                     // name without folders: "mse.so"
  std::vector<std::string> components;  // "loss:mse", in the order of the manifest
  std::vector<std::string> recipes;     // names of the recipe files that use it, sorted
};

struct PluginLock {
  std::string abi;  // of the host that wrote the lock: "0.4"
  std::vector<LockedPlugin> plugins;
};

// Returns the path of the lock beside a recipe.
std::string lock_file_of(const std::string& recipe);

// Reads a lock. Returns null if there is none.
//
// Errors   plugin.bad_lock if it is corrupt, a symbolic link or no regular file, or has a format of
//          a later release
std::optional<PluginLock> read_plugin_lock(const std::string& file);

// Replaces a lock atomically.
//
// Errors   plugin.bad_lock if the present file is a symbolic link or no regular file; storage.io
void write_plugin_lock(const std::string& file, const PluginLock& lock);

// Returns the lock with the plugins that `recipe` uses now. Plugins that only other recipes of the
// folder use stay; a plugin that no recipe uses any more is removed.
PluginLock lock_with(PluginLock lock,
                     const std::string& recipe,
                     std::span<const UsedPluginFile> used);

// True if the lock was written for this recipe.
bool is_locked(const PluginLock& lock, const std::string& recipe);

// Returns one text for each difference between the lock and the plugins that `recipe` uses; none if
// they are the same files.
std::vector<std::string> lock_differences(const PluginLock& lock,
                                          const std::string& recipe,
                                          std::span<const UsedPluginFile> used);

}  // namespace tenon
