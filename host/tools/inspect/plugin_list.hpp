// SPDX-License-Identifier: Apache-2.0
//
// --list-plugins: the contents of the plugin folders, read from the manifests.

#pragma once

#include "host/plugin/plugin_info.hpp"
#include "host/plugin/plugin_scan.hpp"

#include <span>
#include <string>

namespace tenon {

// Returns a table, followed by the reason for each copy and each rejected plugin.
std::string plugin_table(std::span<const PluginInfo> plugins,
                         std::span<const PluginFolder> folders);

// Returns a JSON array with an object for each plugin. Later releases only add keys. All keys are
// present: id, version, abi ("0.4" or "1.0..1.3"), lane, torch, components ([{kind, type}]),
// requires (service ids), file, state ("found", "copy", "refused"), same_as (the file used instead
// of a copy, else null), error ({id, message} of a refused plugin, else null).
std::string plugin_list_json(std::span<const PluginInfo> plugins);

}  // namespace tenon
