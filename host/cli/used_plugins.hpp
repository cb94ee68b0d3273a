// SPDX-License-Identifier: Apache-2.0
//
// The plugins that an action uses: their folders, and how they are loaded.
// Threads: [main].
#pragma once

#include "host/cli/command_line.hpp"
#include "host/error/error.hpp"
#include "host/plugin/registry.hpp"

#include <filesystem>
#include <vector>

namespace tenon {

// Returns the path of this program; empty if the system does not report it.
std::filesystem::path own_program();

// Returns the folders of --plugin-dir, TENON_PLUGIN_PATH or the installation.
std::vector<PluginFolder> plugin_folders_of(const CommandLine& line);

PluginSetup plugin_setup(const CommandLine& line, Vetting vetting);

// Calls `find`, and logs a warning for each rejected plugin. If `find` throws, the warnings are
// logged before the error, because a rejected plugin may be its cause. No warning is logged for the
// plugin that the error names.
template <class Find>
auto warning_of_refused(const PluginRegistry& registry, Find find) -> decltype(find()) {
  try {
    decltype(auto) found = find();
    registry.warn_of_refused();
    return found;
  } catch (const Error& error) {
    registry.warn_of_refused(error.what());
    throw;
  }
}

}  // namespace tenon
