// SPDX-License-Identifier: Apache-2.0
//
// The child's side of vetting: loads the requested plugins, and answers with what it
// found. Its crashes are expected: it prints where they are, for the parent to read.

#pragma once

#include "host/plugin/plugin_host.hpp"
#include "host/plugin/plugin_info.hpp"

#include <span>
#include <string_view>

namespace tenon {

// What stands before the frames that a crashing child prints.
inline constexpr std::string_view kBacktraceMark = "\n[tenon backtrace]\n";

// Answers are cut to fit into one packet of the socket.
inline constexpr std::size_t kMaxAnswerBytes = 32768;

// Turns a process that was just forked by `parent` into a vetting child and serves `socket`
// (SOCK_SEQPACKET): a packet with an index (uint32_t) is a request to load that plugin, and a
// packet of JSON text, {"id": ..., "message": ...}, is the answer. `output` becomes stdout and
// stderr.
[[noreturn]] void run_vet_child(int socket,
                                int output,
                                int parent,
                                std::span<const PluginInfo* const> plugins,
                                const ServiceTable& services) noexcept;

}  // namespace tenon
