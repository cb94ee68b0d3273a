// SPDX-License-Identifier: Apache-2.0
//
// The ids of the services that plugins can request, for code that has no host to ask.
// Invariant: the same ids as in make_service_table() (host/cli/service_table.hpp); a test compares
// them.

#pragma once

#include <span>
#include <string_view>

namespace tenon {

// Returns the ids of all services.
std::span<const std::string_view> all_service_ids() noexcept;

// True if get_interface of this host returns a table for `id` ("tenon.tensor/1").
bool has_service(std::string_view id) noexcept;

}  // namespace tenon
