// SPDX-License-Identifier: Apache-2.0
//
// Which heads of attention each rank computes if ranks divide heads.
#pragma once

#include <cstdint>
#include <vector>

namespace tenon {

// Heads that a rank computes with ContextBy::kHeads: query heads [first, end), and the key and
// value head of each slot. If the query heads share key heads evenly, there is one slot for each
// key head; otherwise, one for each query head.
struct RankHeads {
  int64_t first = 0;
  int64_t end = 0;
  std::vector<int64_t> kv_slots;
};

// Divides H query heads, which share K key heads, among `size` ranks as evenly as possible: the
// first ranks get one more. Ranks may get none. K divides H.
std::vector<RankHeads> heads_of_ranks(int64_t H, int64_t K, uint32_t size);

}  // namespace tenon
