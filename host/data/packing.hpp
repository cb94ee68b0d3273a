// SPDX-License-Identifier: Apache-2.0
//
// How the samples of a dataset are packed into rows, and counts of what was packed.

#pragma once

#include "host/data/pack_rows.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

// Treatment of samples that are longer than a row.
enum class OverLong {
  kError,
  kDrop,   // not read
  kCut,    // their first tokens fill a row
  kSplit,  // pieces that fill a row, and the rest, each as a separate sequence
};

struct PackOptions {
  int64_t length = 1;  // tokens of a row, at most kMaxRowCapacity
  PackStrategy strategy = PackStrategy::kBestFit;
  int64_t group = 1;  // samples of the global order that are packed together
  OverLong over_long = OverLong::kError;
};

// "best_fit into rows of 2048 tokens, in groups of 16384 samples, over-long samples cut".
std::string describe(const PackOptions& options);

// Tokens [first, first + length) of a sample: a sequence of a row.
struct PackPiece {
  int64_t sample = 0;  // index in the source
  int64_t first = 0;
  int64_t length = 0;
  int64_t whole = 0;  // tokens of the sample

  bool operator==(const PackPiece&) const = default;
};

// Counts over all ranks.
struct PackCounts {
  int64_t rows = 0;
  int64_t samples = 0;    // that begin in these rows
  int64_t tokens = 0;     // in these rows, without padding
  int64_t over_long = 0;  // samples longer than a row, in these rows or dropped before them
  int64_t lost = 0;       // tokens of samples that were dropped or cut

  PackCounts& operator+=(const PackCounts& more);
  PackCounts operator-(const PackCounts& less) const;
  bool operator==(const PackCounts&) const = default;
};

struct PackRow {
  std::vector<PackPiece> pieces;  // in the global order
  PackCounts dropped;             // samples dropped before this row: over_long and lost only

  bool operator==(const PackRow&) const = default;
};

// "164 samples in 12 rows of 2048 tokens, 99.31% full; 3 samples were longer than a row and
// dropped, with 7104 tokens".
std::string describe(const PackCounts& counts, const PackOptions& options);

// Returns the counts of a row, with the samples dropped before it.
PackCounts counts_of(const PackRow& row, OverLong over_long);

// A position in a packed window: the next row. The groups follow from seed, epoch and window.
struct PackPosition {
  int64_t group = 0;
  int64_t row = 0;  // in the group

  bool operator==(const PackPosition&) const = default;
};

}  // namespace tenon
