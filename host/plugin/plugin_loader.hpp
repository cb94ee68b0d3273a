// SPDX-License-Identifier: Apache-2.0
//
// Maps plugins into the process and runs their entries. Loading is for good.
// Invariants: no library is ever unloaded; a file's entry runs once, whoever asks for it how often.
// Threads: every function on the main thread, one at a time.

#pragma once

#include "host/plugin/loaded_plugin.hpp"
#include "host/plugin/plugin_info.hpp"

#include <vector>

namespace tenon {

// Loads a plugin, or returns it where the file is loaded already; `services` are then those of the
// first time. A plugin that crashes takes the process with it: see vet.hpp.
//
// Errors   plugin.load_failed, plugin.torch_mismatch if it brings its own libtorch, and
//          those of run_entry (registration.hpp)
// Owner    the result lives as long as the process
const LoadedPlugin& load_plugin(const PluginInfo& plugin, const ServiceTable& services);

// The plugins that are loaded, in the order in which they were.
std::vector<const LoadedPlugin*> loaded_plugins();

// Calls each plugin's `out_shutdown`, the last one loaded first, once. After all instances are
// destroyed, before the process ends: static destructors of libraries run too late to be safe.
void shutdown_plugins();

}  // namespace tenon
