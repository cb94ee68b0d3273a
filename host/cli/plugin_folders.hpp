// SPDX-License-Identifier: Apache-2.0
//
// Where plugins are looked for: what the user named, or else where this program's own ones are.

#pragma once

#include "host/plugin/plugin_scan.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// The folders that --plugin-dir named, then those of TENON_PLUGIN_PATH (`path_variable`, "" where
// it is not set). With none of either, the first of these that is a folder: ../plugins from the
// folder of `program`, as a build has it; and the folder that an installation puts plugins into.
//
// Errors   usage.no_plugin_dir where there is none at all
std::vector<PluginFolder> choose_plugin_folders(const std::vector<std::string>& named,
                                                std::string_view path_variable,
                                                const std::filesystem::path& program);

}  // namespace tenon
