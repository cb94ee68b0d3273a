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

// Returns which plugins are accepted. `recipe_trust` is the trust file of the recipe, which --trust
// overrides; "" for none.
//
// Errors   plugin.bad_trust; usage.bad_option if TENON_ALLOW_WRITABLE_PLUGINS is neither 0 nor 1
ScanRules scan_rules(const CommandLine& line, const std::string& recipe_trust = "");

// Errors   those of scan_rules()
PluginSetup plugin_setup(const CommandLine& line,
                         Vetting vetting,
                         const std::string& recipe_trust = "");

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
