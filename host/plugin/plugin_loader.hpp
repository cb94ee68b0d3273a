// SPDX-License-Identifier: Apache-2.0
//
// Loads plugins into the process and runs their entries.
// Invariants: no library is ever unloaded; the entry of a file runs at most once.
// Threads: every function on the main thread, one at a time.

#pragma once

#include "host/plugin/loaded_plugin.hpp"
#include "host/plugin/plugin_info.hpp"
#include "host/plugin/watchdog.hpp"

#include <functional>
#include <vector>

namespace tenon {

// Loads a plugin. If the file is already loaded, returns that plugin and ignores `services`. If the
// plugin crashes, the process ends; vet.hpp prevents this.
//
// Errors   plugin.load_failed, plugin.changed if the file is not the one that was scanned and
//          vetted, plugin.torch_mismatch if it brings its own libtorch, and those of run_entry
//          (registration.hpp)
// Owner    the result lives as long as the process
const LoadedPlugin& load_plugin(const PluginInfo& plugin, const ServiceTable& services);

// Returns the plugin whose library has the code at an address; null if none has. Allocates no
// memory, so that a signal handler can call it.
//
// Threads  any, while no plugin is being loaded
const LoadedPlugin* plugin_of_code(const void* instruction) noexcept;

// Returns the loaded plugins, in the order of loading.
std::vector<const LoadedPlugin*> loaded_plugins();

// Calls the `out_shutdown` of each plugin once, in reverse order of loading. Call it after all
// instances are destroyed and before the process ends: static destructors of libraries run too late
// to be safe. Calls `on_stuck`, if it is not null, on another thread if a plugin does not return
// within 10 seconds. Logs exceptions, and returns false if there were any.
bool shutdown_plugins(const std::function<void(const StuckCall&)>& on_stuck = nullptr);

}  // namespace tenon
