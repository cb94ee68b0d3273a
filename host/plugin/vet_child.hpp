// SPDX-License-Identifier: Apache-2.0
//
// The child process of vetting: loads the requested plugins and reports the results.

#pragma once

#include "host/plugin/plugin_host.hpp"
#include "host/plugin/plugin_info.hpp"
#include "host/plugin/watched_child.hpp"

#include <cstdint>
#include <span>
#include <string_view>

namespace tenon {

// The request to vet a plugin: its index, which must outlive the result.
std::string_view vet_request(const uint32_t& index) noexcept;

// Serves requests in a child until the parent closes its end. The answer is a packet of JSON text,
// {"id": ..., "message": ..., "hash": ...}.
void serve_vetting(int socket,
                   std::span<const PluginInfo* const> plugins,
                   const ServiceTable& services,
                   ChildNote& note) noexcept;

}  // namespace tenon
