// SPDX-License-Identifier: Apache-2.0
#include "host/kernels/rank_heads.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// Whether n query heads that share m slots evenly, in order, find the key heads that they want.
bool serves(const std::vector<int64_t>& slots, const std::vector<int64_t>& wanted) {
  if (slots.empty() || wanted.size() % slots.size() != 0) {
    return false;
  }
  const size_t share = wanted.size() / slots.size();
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (slots[i / share] != wanted[i]) {
      return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("ranks divide query heads evenly, with a slot for each key head if it can be",
          "[kernels]") {
  for (int64_t H = 1; H <= 12; ++H) {
    for (int64_t K = 1; K <= H; ++K) {
      for (uint32_t size = 1; size <= 7 && H % K == 0; ++size) {
        CAPTURE(H, K, size);
        const std::vector<RankHeads> ranks = heads_of_ranks(H, K, size);
        REQUIRE(ranks.size() == size);
        int64_t next = 0;
        for (const RankHeads& rank : ranks) {
          REQUIRE(rank.first == next);
          next = rank.end;
          const int64_t heads = rank.end - rank.first;
          CHECK(heads >= H / size);
          CHECK(heads <= (H + size - 1) / size);
          std::vector<int64_t> wanted;
          for (int64_t h = rank.first; h < rank.end; ++h) {
            wanted.push_back(h / (H / K));
          }
          if (heads == 0) {
            CHECK(rank.kv_slots.empty());
            continue;
          }
          CHECK(serves(rank.kv_slots, wanted));
          const std::set<int64_t> distinct(wanted.begin(), wanted.end());
          const std::vector<int64_t> fewest(distinct.begin(), distinct.end());
          CHECK(rank.kv_slots == (serves(fewest, wanted) ? fewest : wanted));
        }
        CHECK(next == H);
      }
    }
  }
}

TEST_CASE("a rank gets each key head of its query heads", "[kernels]") {
  const std::vector<RankHeads> ranks = heads_of_ranks(6, 3, 4);
  CHECK(ranks[0].kv_slots == std::vector<int64_t>{0});
  CHECK(ranks[1].kv_slots == std::vector<int64_t>{1});
  CHECK(ranks[2].kv_slots == std::vector<int64_t>{2});
  CHECK(ranks[3].kv_slots == std::vector<int64_t>{2});
  CHECK(heads_of_ranks(6, 3, 2)[0].kv_slots == std::vector<int64_t>{0, 0, 1});
  CHECK(heads_of_ranks(3, 3, 4)[3].kv_slots.empty());
}

}  // namespace tenon
