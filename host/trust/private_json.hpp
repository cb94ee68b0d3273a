// SPDX-License-Identifier: Apache-2.0
//
// JSON files of the user's cache, which are hints: one that cannot be used is ignored.
// Threads: any.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace tenon {

// Returns the content of a file that only its owner can write, without the values that are nested
// deeper than `max_depth`; a discarded value if it is not JSON. Returns nothing if there is no text
// to use. `what` names the file in the debug log: "the vet cache".
std::optional<nlohmann::json> read_private_json(const std::string& what,
                                                const std::string& file,
                                                uint64_t max_bytes,
                                                int max_depth);

}  // namespace tenon
