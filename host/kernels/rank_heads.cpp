// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/rank_heads.hpp"

#include <algorithm>

namespace tenon {
namespace {

// One slot for each query head of [first, end), or for each key head if these are shared evenly.
std::vector<int64_t> kv_slots_of(int64_t first, int64_t end, int64_t group) {
  const int64_t heads = end - first;
  if (heads == 0) {
    return {};
  }
  const int64_t first_kv = first / group;
  const int64_t num_kv = (end - 1) / group - first_kv + 1;
  const int64_t share = heads % num_kv == 0 ? heads / num_kv : 0;
  std::vector<int64_t> slots;
  bool is_even = share > 0;
  for (int64_t h = first; h < end; ++h) {
    slots.push_back(h / group);
    is_even = is_even && h / group == first_kv + (h - first) / share;
  }
  if (is_even) {
    slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  }
  return slots;
}

}  // namespace

std::vector<RankHeads> heads_of_ranks(int64_t H, int64_t K, uint32_t size) {
  std::vector<RankHeads> ranks(size);
  int64_t first = 0;
  for (uint32_t r = 0; r < size; ++r) {
    const int64_t end = first + H / size + (r < H % size ? 1 : 0);
    ranks[r] = {.first = first, .end = end, .kv_slots = kv_slots_of(first, end, H / K)};
    first = end;
  }
  return ranks;
}

}  // namespace tenon
