// SPDX-License-Identifier: Apache-2.0
//
// Loads plugins in a child process first, so that a plugin that crashes or hangs while loading does
// not end the run. vet_cache.hpp stores the verdicts.
// Threads: [main], before the process starts other threads, because the child is a fork.

#pragma once

#include "host/plugin/plugin_host.hpp"
#include "host/plugin/plugin_info.hpp"
#include "host/plugin/verdict.hpp"

#include <chrono>
#include <span>
#include <string>
#include <vector>

namespace tenon {

// Returns the timeout per plugin: TENON_VET_TIMEOUT_S, or 10 s if it is not set.
//
// Errors   usage.bad_option if the value is not above 0 and at most 86400 s
std::chrono::milliseconds vet_timeout_from_environment();

// Returns a verdict for each plugin, in order. One child loads the plugins one after the other; if
// it dies or hangs, a new child continues.
//
// Errors   run.out_of_resources if a process cannot be created
std::vector<Verdict> vet_plugins(std::span<const PluginInfo* const> plugins,
                                 const ServiceTable& services,
                                 std::chrono::milliseconds timeout);

}  // namespace tenon
