// SPDX-License-Identifier: Apache-2.0
#include "host/train/rank_decisions.hpp"

#include "host/text/formatted.hpp"

#include <cstdint>
#include <span>

namespace tenon {

bool any_rank(Group& ranks, bool mine) {
  int64_t value = mine ? 1 : 0;
  ranks.all_reduce(std::span(&value, 1), Reduce::kMax, "a vote");
  return value != 0;
}

std::string first_text(Group& ranks, const std::string& mine) {
  if (ranks.size() == 1) {
    return mine;
  }
  const auto all = ranks.gather_texts(mine, "reason to end");
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) {
      return rank == 0 ? all[rank] : formatted("rank {}: {}", rank, all[rank]);
    }
  }
  return "";
}

}  // namespace tenon
