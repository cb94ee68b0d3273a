// SPDX-License-Identifier: Apache-2.0
//
// Runs a plugin's entry and checks what it registers: against the manifest, and each component for
// what the host is going to rely on. The vetting child and the loader both do it, so that what a
// plugin is refused for does not depend on who loads it.

#pragma once

#include <tenon/plugin.h>

#include "host/plugin/loaded_plugin.hpp"
#include "host/plugin/manifest.hpp"

namespace tenon {

using PluginEntry = tenon_status* (*)(tenon_entry_args*);

// Calls `entry`, and fills plugin.components, in the order of their registration, and
// plugin.shutdown.
//
// Errors   plugin.entry_failed, plugin.abi_mismatch, plugin.components_differ,
//          plugin.missing_interface, plugin.bad_schema
// Threads  [load]
void run_entry(PluginEntry entry, const Manifest& manifest, LoadedPlugin& plugin);

}  // namespace tenon
