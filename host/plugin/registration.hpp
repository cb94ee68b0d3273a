// SPDX-License-Identifier: Apache-2.0
//
// Runs a plugin's entry and checks its registrations: against the manifest, and each component for
// the properties that the host relies on. The vetting child and the loader share this code, so both
// refuse a plugin for the same reasons.

#pragma once

#include <tenon/plugin.h>

#include "host/plugin/loaded_plugin.hpp"
#include "host/plugin/manifest.hpp"

namespace tenon {

using PluginEntry = tenon_status* (*)(tenon_entry_args*);

// Calls `entry`, then sets plugin.components, in order of registration, and plugin.shutdown.
//
// Errors   plugin.entry_failed, plugin.abi_mismatch, plugin.components_differ,
//          plugin.missing_interface, plugin.bad_schema
// Threads  [load]
void run_entry(PluginEntry entry, const Manifest& manifest, LoadedPlugin& plugin);

}  // namespace tenon
