// SPDX-License-Identifier: Apache-2.0
//
// --list-plugins: what the plugin folders hold, as far as manifests tell it.

#pragma once

#include "host/plugin/plugin_info.hpp"
#include "host/plugin/plugin_scan.hpp"

#include <span>
#include <string>

namespace tenon {

// A table, and below it why each refused plugin is refused.
std::string plugin_table(std::span<const PluginInfo> plugins,
                         std::span<const PluginFolder> folders);

// A JSON array with an object for each plugin. Keys are only ever added, and each is always there:
// id, version, abi, lane, torch, components ([{kind, type}]), file, state ("found", "copy",
// "refused"), same_as (of a copy: the file that is used instead, else null), error ({id, message}
// of a refused one, else null).
std::string plugin_list_json(std::span<const PluginInfo> plugins);

}  // namespace tenon
