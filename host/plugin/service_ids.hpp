// SPDX-License-Identifier: Apache-2.0
//
// The ids of the services that plugins can request, for code that has no host to ask.
// Invariant: the ids of the services in the headers of the SDK, from which sdk/abi/glue.py writes
// generated_service_ids.cpp. make_service_table() (host/cli/service_table.hpp) has the same; a test
// compares them.

#pragma once

#include <algorithm>
#include <span>
#include <string_view>

namespace tenon {

// Returns the ids of all services.
std::span<const std::string_view> all_service_ids() noexcept;

// True if get_interface of this host returns a table for `id` ("tenon.tensor/1").
inline bool has_service(std::string_view id) noexcept {
  return std::ranges::find(all_service_ids(), id) != all_service_ids().end();
}

}  // namespace tenon
