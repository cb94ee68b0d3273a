// SPDX-License-Identifier: Apache-2.0
//
// Assigns the rows of a window to shards. Opens files to count their rows, and reads no rows.
// Invariants: each row of the window's share belongs to exactly one shard. The assignment depends
// on the window and the options only.
// Threads: pure functions, from any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "shard_reader.hpp"
#include "window_walk.hpp"

namespace tenon {

enum class DealBy { kRows, kRowGroups, kFiles };

// Parts [from, to) of `of` parts with nearly equal row counts.
struct RowShare {
  int64_t from = 0;
  int64_t to = 1;
  int64_t of = 1;
};

// The rows of a window in order, split at row groups.
//
// Errors   errors of `open`
std::vector<RowSpan> spans_of(const DataWindow& window,
                              const RowShare& share,
                              const WindowWalk::Open& open);

int64_t num_rows_of(const std::vector<RowSpan>& spans);

// Spans of each shard, in window order: contiguous equal row counts, or whole row groups or files
// round-robin.
std::vector<std::vector<RowSpan>> assign_to_shards(const std::vector<RowSpan>& spans,
                                                   size_t num_shards,
                                                   DealBy by);

}  // namespace tenon
