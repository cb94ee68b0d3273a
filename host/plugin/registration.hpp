// SPDX-License-Identifier: Apache-2.0
//
// Runs a plugin's entry and checks its registrations: against the manifest, and each component for
// the properties that the host relies on. The vetting child and the loader share this code, so both
// refuse a plugin for the same reasons.

#pragma once

#include <tenon/plugin.h>

#include "host/plugin/abi_range.hpp"
#include "host/plugin/loaded_plugin.hpp"
#include "host/plugin/manifest.hpp"

#include <cstddef>
#include <cstdint>

namespace tenon {

using PluginEntry = tenon_status* (*)(tenon_entry_args*);

// How a host presents itself to an entry. The checker acts as hosts of other releases.
struct EntryOffer {
  uint32_t newest_minor = kHostAbi.max_minor;
  std::size_t later_bytes = 0;  // fields of a later ABI at the end of the arguments, at most 256
};

// Calls `entry`, then sets plugin.components, in order of registration, and plugin.shutdown.
//
// Errors   plugin.entry_failed, plugin.abi_mismatch, plugin.components_differ,
//          plugin.missing_interface, plugin.bad_schema; plugin.bad_struct if the entry wrote past
//          the fields of its ABI
// Threads  [load]
void run_entry(PluginEntry entry,
               const Manifest& manifest,
               LoadedPlugin& plugin,
               const EntryOffer& offer = {});

}  // namespace tenon
