// SPDX-License-Identifier: Apache-2.0
//
// The child process of vetting: tries the requested plugins and reports the results.

#pragma once

#include "host/trust/child/watched_child.hpp"
#include "host/trust/vet_trial.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tenon {

// The request to vet a plugin: its index, which must outlive the result.
std::string_view vet_request(const uint32_t& index) noexcept;

// Serves requests for `num_plugins` plugins in a child until the parent closes its end. The answer
// is a packet of JSON text, {"id": ..., "message": ..., "hash": ...}.
void serve_vetting(int socket,
                   std::size_t num_plugins,
                   const VetTrial& trial,
                   ChildNote& note) noexcept;

}  // namespace tenon
