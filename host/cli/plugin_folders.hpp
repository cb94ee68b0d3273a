// SPDX-License-Identifier: Apache-2.0
//
// The folders to search for plugins: folders that the user names, else the program's own folder.

#pragma once

#include "host/plugin/plugin_scan.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// Returns the folders of --plugin-dir, then the folders of TENON_PLUGIN_PATH (`path_variable`; ""
// if not set). If neither names a folder, returns the first that exists: ../plugins from the folder
// of `program`, as in a build tree, or the plugin folder of the installation.
//
// Errors   usage.no_plugin_dir if no folder exists
std::vector<PluginFolder> choose_plugin_folders(const std::vector<std::string>& named,
                                                std::string_view path_variable,
                                                const std::filesystem::path& program);

// Returns the folder that choose_plugin_folders() takes if none is named, if it exists and is not
// among `searched`; otherwise "".
std::string unsearched_plugin_folder(const std::vector<PluginFolder>& searched,
                                     const std::filesystem::path& program);

}  // namespace tenon
