// SPDX-License-Identifier: Apache-2.0
//
// Ranks, named in a message: "rank 2", "ranks 0, 1 and 3", "ranks 0 to 7 and 9".
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tenon {

// `ranks` are ascending, and at least one.
std::string rank_list(std::span<const uint32_t> ranks);

}  // namespace tenon
