// SPDX-License-Identifier: Apache-2.0
//
// Sizes of the blocks of attention_kernels.hpp. The scores of a block stay in the L1 or L2 cache.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tenon {

// Both are multiples of the rows of a tile and of two vectors.
inline constexpr int64_t kQueries = 96;
inline constexpr int64_t kKeys = 48;

// Keys, values and their gradients of a chunk fit the L2 cache: at most this many floats each.
inline constexpr int64_t kChunkFloats = 24576;

inline int64_t blocks_of(int64_t n, int64_t block) {
  return (n + block - 1) / block;
}

// Keys per chunk of the backward, whole blocks.
inline int64_t chunk_keys(int64_t keys, int64_t width) {
  const int64_t most = std::max<int64_t>(kChunkFloats / width, 2 * kKeys);
  const int64_t chunks = blocks_of(keys, most);
  return blocks_of(blocks_of(keys, chunks), kKeys) * kKeys;
}

}  // namespace tenon
