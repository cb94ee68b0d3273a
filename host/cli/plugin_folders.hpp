// SPDX-License-Identifier: Apache-2.0
//
// The folders to search for plugins: those that the user specifies, else those of this program.

#pragma once

#include "host/plugin/plugin_scan.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// The folders of --plugin-dir, then those of TENON_PLUGIN_PATH (`path_variable`; "" if not set). If
// both are empty, the first existing folder of these: ../plugins from the folder of `program`, as
// in a build tree, and the plugin folder of the installation.
//
// Errors   usage.no_plugin_dir if no folder exists
std::vector<PluginFolder> choose_plugin_folders(const std::vector<std::string>& named,
                                                std::string_view path_variable,
                                                const std::filesystem::path& program);

}  // namespace tenon
