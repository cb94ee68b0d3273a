// SPDX-License-Identifier: Apache-2.0
//
// Tries plugins in the child process of vetting (trust.hpp): loads each, and creates its components
// with default options.
// Threads: [main].

#pragma once

#include "host/plugin/plugin_host.hpp"
#include "host/plugin/plugin_info.hpp"
#include "host/trust/trust.hpp"

#include <chrono>
#include <span>
#include <vector>

namespace tenon {

// Returns the plugins as subjects of vetting, in order.
std::vector<VetSubject> vet_subjects(std::span<const PluginInfo* const> plugins);

// Returns the trial of these plugins with these services. Both must outlive the result.
VetTrial trial_of(std::span<const PluginInfo* const> plugins, const ServiceTable& services);

// Returns a verdict for each plugin, in order, without a cache.
//
// Errors   as PluginVetter::vet
std::vector<Verdict> try_plugins(std::span<const PluginInfo* const> plugins,
                                 const ServiceTable& services,
                                 std::chrono::milliseconds timeout);

}  // namespace tenon
