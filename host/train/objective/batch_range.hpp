// SPDX-License-Identifier: Apache-2.0
//
// Parts of a batch that come from one source of a mix.
// Threads: pure functions, from any.
#pragma once

#include "host/tensor/batch.hpp"

#include <cstdint>
#include <vector>

namespace tenon {

// Rows [row, row + num_rows) of a batch, and of them the positions [first, first + length) of T.
struct BatchRange {
  int64_t row = 0;
  int64_t num_rows = 1;
  int64_t first = 0;
  int64_t length = -1;  // -1: all positions
  uint32_t part = 0;    // number of its source

  bool operator==(const BatchRange&) const = default;
};

// Returns the ranges of a batch of a mix, each of one source: with packing, its sequences;
// otherwise neighboring rows. Padding of packed rows is in no range.
std::vector<BatchRange> ranges_by_source(const Batch& batch);

}  // namespace tenon
