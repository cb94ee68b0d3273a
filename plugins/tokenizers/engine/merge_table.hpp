// SPDX-License-Identifier: Apache-2.0
//
// Merge rules of byte pair encoding, by pairs of ids.
// Threads: after construction, any thread may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon {

struct MergeRule {
  int32_t left;
  int32_t right;
  uint32_t rank;  // lower ranks are merged first
  int32_t merged;
};

struct MergeSymbol {
  int32_t id;
  uint32_t size;  // bytes of the word
};

class MergeTable {
 public:
  static constexpr uint32_t kNoRank = ~uint32_t{0};
  struct Merged {
    uint32_t rank = kNoRank;
    int32_t id = 0;
  };

  MergeTable() : MergeTable(std::vector<MergeRule>()) {}
  // A later rule of an equal pair replaces an earlier one.
  explicit MergeTable(const std::vector<MergeRule>& rules);

  // Rank and result of a pair; kNoRank if there is no rule.
  Merged find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    const size_t mask = pairs_.size() - 1;
    for (size_t at = slot_of(key) & mask;; at = (at + 1) & mask) {
      if (pairs_[at].key == key) {
        return pairs_[at].merged;
      }
      if (pairs_[at].key == kFree) {
        return {};
      }
    }
  }

  // Merges the pair of the lowest rank, the leftmost first, until there is none. Takes time
  // n log n.
  void merge(std::vector<MergeSymbol>& symbols) const;

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};
  struct Pair {
    uint64_t key = kFree;
    Merged merged;
  };
  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  static size_t slot_of(uint64_t key) { return key * 0x9E3779B97F4A7C15u >> 24; }

  std::vector<Pair> pairs_;
};

}  // namespace tenon
