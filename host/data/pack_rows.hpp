// SPDX-License-Identifier: Apache-2.0
//
// Assigns sequences to rows of a fixed capacity. Knows lengths only; pack_groups.hpp knows samples.
// Invariants: each sequence is in exactly one row; no row holds more than its capacity; the result
// depends only on the arguments.
// Threads: a pure function, from any.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

enum class PackStrategy {
  kGreedy,   // in the given order: a row ends before the first sequence that does not fit
  kBestFit,  // from the longest to the shortest, each into the fullest row that has room
};

// "greedy", "best_fit".
const char* word_of(PackStrategy strategy);

// The largest capacity of a row.
inline constexpr int64_t kMaxRowCapacity = int64_t{1} << 22;

struct RowOfEach {
  std::vector<uint32_t> row;  // of each sequence
  std::size_t num_rows = 0;   // rows are numbered from 0 without gaps
};

// `capacity` is from 1 to kMaxRowCapacity; each length is from 1 to `capacity`. kBestFit takes time
// proportional to n log n, and kGreedy to n.
//
// Source  Johnson, Near-optimal bin packing algorithms (1973): best fit decreasing
RowOfEach pack_rows(std::span<const int32_t> lengths, int64_t capacity, PackStrategy strategy);

}  // namespace tenon
