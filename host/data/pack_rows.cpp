// SPDX-License-Identifier: Apache-2.0

#include "host/data/pack_rows.hpp"

#include "host/error/assert.hpp"

#include <algorithm>
#include <bit>
#include <optional>

namespace tenon {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

// A set of numbers in [0, n) that finds the next number in constant time: 64 numbers per word, and
// above them a tree with one bit per word.
class NumberSet {
 public:
  explicit NumberSet(std::size_t n) {
    do {
      n = (n + 63) / 64;
      levels_.emplace_back(n, 0);
    } while (n > 1);
  }

  void insert(std::size_t number) {
    for (std::vector<uint64_t>& level : levels_) {
      level[number / 64] |= bit(number);
      number /= 64;
    }
  }

  void erase(std::size_t number) {
    for (std::vector<uint64_t>& level : levels_) {
      level[number / 64] &= ~bit(number);
      if (level[number / 64] != 0) {
        return;
      }
      number /= 64;
    }
  }

  // Returns the smallest number of the set from `number` on.
  std::optional<std::size_t> at_least(std::size_t number) const {
    for (std::size_t l = 0; l < levels_.size() && number / 64 < levels_[l].size(); ++l) {
      const uint64_t word = levels_[l][number / 64] & (~uint64_t{0} << (number % 64));
      if (word != 0) {
        number = number / 64 * 64 + first_bit(word);
        while (l-- > 0) {
          number = number * 64 + first_bit(levels_[l][number]);
        }
        return number;
      }
      number = number / 64 + 1;
    }
    return std::nullopt;
  }

 private:
  static uint64_t bit(std::size_t number) { return uint64_t{1} << (number % 64); }
  static std::size_t first_bit(uint64_t word) {
    return static_cast<std::size_t>(std::countr_zero(word));
  }

  std::vector<std::vector<uint64_t>> levels_;  // the last has one word
};

// Rows by their free space.
class OpenRows {
 public:
  explicit OpenRows(int64_t capacity)
      : spaces_(static_cast<std::size_t>(capacity) + 1),
        first_(static_cast<std::size_t>(capacity) + 1, kNone) {}

  // Removes and returns a row with the least space of at least `length`, or nothing.
  struct Row {
    uint32_t number;
    std::size_t space;
  };
  std::optional<Row> take(std::size_t length) {
    const std::optional<std::size_t> space = spaces_.at_least(length);
    if (!space) {
      return std::nullopt;
    }
    const uint32_t row = first_[*space];
    first_[*space] = next_[row];
    if (first_[*space] == kNone) {
      spaces_.erase(*space);
    }
    return Row{row, *space};
  }

  void put(const Row& row) {
    if (next_.size() <= row.number) {
      next_.resize(row.number + std::size_t{1}, kNone);
    }
    next_[row.number] = first_[row.space];
    first_[row.space] = row.number;
    spaces_.insert(row.space);
  }

 private:
  NumberSet spaces_;             // that some row has
  std::vector<uint32_t> first_;  // by space: the first of the rows that have it
  std::vector<uint32_t> next_;   // by row: the next row with the same space
};

RowOfEach pack_greedily(std::span<const int32_t> lengths, int64_t capacity) {
  RowOfEach result;
  result.row.reserve(lengths.size());
  int64_t left = 0;
  for (const int32_t length : lengths) {
    if (length > left) {
      ++result.num_rows;
      left = capacity;
    }
    left -= length;
    result.row.push_back(static_cast<uint32_t>(result.num_rows - 1));
  }
  return result;
}

RowOfEach pack_best_fit(std::span<const int32_t> lengths, int64_t capacity) {
  // The longest first; equal lengths in their order.
  std::vector<uint64_t> order(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    order[i] = (static_cast<uint64_t>(capacity - lengths[i]) << 32) | i;
  }
  std::ranges::sort(order);
  RowOfEach result;
  result.row.resize(lengths.size());
  OpenRows open(capacity);
  for (const uint64_t key : order) {
    const auto i = static_cast<std::size_t>(key & UINT32_MAX);
    const auto length = static_cast<std::size_t>(lengths[i]);
    OpenRows::Row row{static_cast<uint32_t>(result.num_rows), static_cast<std::size_t>(capacity)};
    if (const auto found = open.take(length)) {
      row = *found;
    } else {
      ++result.num_rows;
    }
    result.row[i] = row.number;
    row.space -= length;
    if (row.space > 0) {
      open.put(row);
    }
  }
  return result;
}

}  // namespace

const char* word_of(PackStrategy strategy) {
  return strategy == PackStrategy::kGreedy ? "greedy" : "best_fit";
}

RowOfEach pack_rows(std::span<const int32_t> lengths, int64_t capacity, PackStrategy strategy) {
  TENON_ASSERT(capacity >= 1 && capacity <= kMaxRowCapacity, "not a capacity of rows");
  TENON_ASSERT(lengths.size() < UINT32_MAX, "too many sequences to pack at once");
  for (const int32_t length : lengths) {
    TENON_ASSERT(length >= 1 && length <= capacity, "a sequence that fits into no row");
  }
  return strategy == PackStrategy::kGreedy ? pack_greedily(lengths, capacity)
                                           : pack_best_fit(lengths, capacity);
}

}  // namespace tenon
