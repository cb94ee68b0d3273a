// SPDX-License-Identifier: Apache-2.0
//
// The names of a checkpoint's files.
#pragma once

#include "host/text/formatted.hpp"

#include <cstdint>
#include <string>

namespace tenon {

inline constexpr char kIndexFile[] = "index.json";
inline constexpr char kRecipeFile[] = "recipe.json";
inline constexpr char kSumsFile[] = "SUMS.xxh128";  // of the two above

// "rank-0-of-2.safetensors"
inline std::string rank_file_name(uint32_t rank, uint32_t num_ranks) {
  return formatted("rank-{}-of-{}.safetensors", rank, num_ranks);
}

}  // namespace tenon
