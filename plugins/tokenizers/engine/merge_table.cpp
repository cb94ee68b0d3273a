// SPDX-License-Identifier: Apache-2.0
#include "merge_table.hpp"

#include <functional>
#include <queue>
#include <utility>

namespace tenon {

MergeTable::MergeTable(const std::vector<MergeRule>& rules) {
  size_t capacity = 64;
  while (capacity < rules.size() * 2) {
    capacity *= 2;
  }
  pairs_.resize(capacity);
  for (const MergeRule& rule : rules) {
    const uint64_t key = key_of(rule.left, rule.right);
    size_t at = slot_of(key) & (capacity - 1);
    while (pairs_[at].key != kFree && pairs_[at].key != key) {
      at = (at + 1) & (capacity - 1);
    }
    pairs_[at].key = key;
    pairs_[at].merged = {rule.rank, rule.merged};
  }
}

void MergeTable::merge(std::vector<MergeSymbol>& symbols) const {
  struct Candidate {
    uint32_t rank;
    uint32_t at;
    int32_t left;
    int32_t right;
    int32_t merged;
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  constexpr uint32_t kEnd = ~uint32_t{0};
  const auto n = static_cast<uint32_t>(symbols.size());
  std::vector<uint32_t> before(n);
  std::vector<uint32_t> after(n);
  std::vector<Candidate> first;
  for (uint32_t i = 0; i < n; ++i) {
    before[i] = i == 0 ? kEnd : i - 1;
    after[i] = i + 1 == n ? kEnd : i + 1;
    if (i + 1 < n) {
      const Merged merged = find(symbols[i].id, symbols[i + 1].id);
      if (merged.rank != kNoRank) {
        first.push_back({merged.rank, i, symbols[i].id, symbols[i + 1].id, merged.id});
      }
    }
  }
  if (first.empty()) {
    return;
  }
  std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(first));
  const auto add = [&](uint32_t at) {
    const int32_t left = symbols[at].id;
    const int32_t right = symbols[after[at]].id;
    const Merged merged = find(left, right);
    if (merged.rank != kNoRank) {
      queue.push({merged.rank, at, left, right, merged.id});
    }
  };
  constexpr int32_t kGone = -1;  // merged into the symbol before
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    const uint32_t next = symbols[best.at].id == best.left ? after[best.at] : kEnd;
    if (next == kEnd || symbols[next].id != best.right) {
      continue;  // one of its symbols was merged since
    }
    symbols[best.at].id = best.merged;
    symbols[best.at].size += symbols[next].size;
    symbols[next].id = kGone;
    after[best.at] = after[next];
    if (after[next] != kEnd) {
      before[after[next]] = best.at;
      add(best.at);
    }
    if (before[best.at] != kEnd) {
      add(before[best.at]);
    }
  }
  uint32_t kept = 0;
  for (uint32_t i = 0; i != kEnd; i = after[i]) {
    symbols[kept++] = symbols[i];
  }
  symbols.resize(kept);
}

}  // namespace tenon
