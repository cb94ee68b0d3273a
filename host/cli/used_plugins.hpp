// SPDX-License-Identifier: Apache-2.0
//
// The plugins that an action uses: which folders they are in, and how they are loaded.
// Threads: [main].
#pragma once

#include "host/cli/command_line.hpp"
#include "host/error/error.hpp"
#include "host/plugin/registry.hpp"

#include <filesystem>
#include <vector>

namespace tenon {

// The path of this program; empty if the system does not report it.
std::filesystem::path own_program();

// The folders of --plugin-dir, TENON_PLUGIN_PATH or the installation.
std::vector<PluginFolder> plugin_folders_of(const CommandLine& line);

PluginSetup plugin_setup(const CommandLine& line, Vetting vetting);

// Calls `find`, and logs a warning for each rejected plugin. If `find` fails, the warnings come
// first, because a rejected plugin may be the cause; the plugin that the error names is skipped.
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
