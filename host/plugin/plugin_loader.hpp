// SPDX-License-Identifier: Apache-2.0
//
// Loads plugins into the process and runs their entries.
// Invariants: no library is ever unloaded; the entry of a file runs at most once.
// Threads: every function on the main thread, one at a time.

#pragma once

#include "host/plugin/loaded_plugin.hpp"
#include "host/plugin/plugin_info.hpp"

#include <vector>

namespace tenon {

// Loads a plugin. If the file is already loaded, returns that plugin and ignores `services`. If the
// plugin crashes, the process ends; vet.hpp prevents this.
//
// Errors   plugin.load_failed, plugin.torch_mismatch if it brings its own libtorch, and
//          those of run_entry (registration.hpp)
// Owner    the result lives as long as the process
const LoadedPlugin& load_plugin(const PluginInfo& plugin, const ServiceTable& services);

// Returns the loaded plugins, in the order of loading.
std::vector<const LoadedPlugin*> loaded_plugins();

// Calls the `out_shutdown` of each plugin once, in reverse order of loading. Call it after all
// instances are destroyed and before the process ends: static destructors of libraries run too late
// to be safe.
void shutdown_plugins();

}  // namespace tenon
