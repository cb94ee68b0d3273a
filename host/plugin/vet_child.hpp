// SPDX-License-Identifier: Apache-2.0
//
// The child process of vetting: loads the requested plugins and reports the results. If a plugin
// crashes it, it prints a backtrace, which the parent reads.

#pragma once

#include "host/plugin/plugin_host.hpp"
#include "host/plugin/plugin_info.hpp"

#include <array>
#include <span>
#include <string_view>

namespace tenon {

// Precedes the frames that a crashing child prints.
inline constexpr std::string_view kBacktraceMark = "\n[tenon backtrace]\n";

// What the child calls, for the parent if the child dies: text that ends with a NUL; "" while it
// loads a plugin. Shared memory.
using VetNote = std::array<char, 256>;

// Answers are truncated to fit into one packet of the socket.
inline constexpr std::size_t kMaxAnswerBytes = 32768;

// Turns a process that `parent` has just forked into a vetting child, and serves `socket`
// (SOCK_SEQPACKET). A request is a packet with the index (uint32_t) of a plugin to load. The answer
// is a packet of JSON text, {"id": ..., "message": ..., "hash": ...}. `output` becomes stdout and
// stderr.
[[noreturn]] void run_vet_child(int socket,
                                int output,
                                int parent,
                                std::span<const PluginInfo* const> plugins,
                                const ServiceTable& services,
                                VetNote& note) noexcept;

}  // namespace tenon
