// SPDX-License-Identifier: Apache-2.0
//
// Formats lists of ranks for messages: "rank 2", "ranks 0, 1 and 3", "ranks 0 to 7 and 9".
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tenon {

// `ranks` is ascending and not empty.
std::string rank_list(std::span<const uint32_t> ranks);

}  // namespace tenon
