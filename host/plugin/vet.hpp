// SPDX-License-Identifier: Apache-2.0
//
// Loads plugins in a child process first, so that one that crashes or hangs while it is being
// loaded costs the host a line and not the run. What it finds is kept by vet_cache.hpp.
// Threads: to be called before the process has started any: the child is a fork.

#pragma once

#include "host/plugin/plugin_host.hpp"
#include "host/plugin/plugin_info.hpp"

#include <chrono>
#include <span>
#include <string>
#include <vector>

namespace tenon {

// What a child process found out about a plugin.
struct Verdict {
  std::string id;       // of the error that the plugin is refused with; "" for a good one
  std::string message;  // names file, reason and fix in one line
  std::string details;  // what the plugin printed, and where it crashed; many lines, or ""

  bool is_good() const noexcept { return id.empty(); }
};

// 10 s a plugin, or what TENON_VET_TIMEOUT_S says.
//
// Errors   usage.bad_option if that is not a number of seconds
std::chrono::milliseconds vet_timeout_from_environment();

// A verdict for each of `plugins`, in their order. One child loads them all, one by one; where it
// dies or hangs, a fresh one continues.
//
// Errors   std::system_error if no process can be made
std::vector<Verdict> vet_plugins(std::span<const PluginInfo* const> plugins,
                                 const ServiceTable& services,
                                 std::chrono::milliseconds timeout);

}  // namespace tenon
