// SPDX-License-Identifier: Apache-2.0
//
// Packs the samples of a window into rows, group by group. A group is a fixed range of the global
// order, so rows do not depend on ranks, batches or threads. Reads lengths, never samples.
// Invariants: the rows of a group depend only on the order, the lengths and the options; unless it
// is dropped, each sample of the group is in the rows once, whole, cut or in pieces.
// Threads: [main].

#pragma once

#include "host/data/data_source.hpp"
#include "host/data/order.hpp"
#include "host/data/packing.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

// Draws the order of the rows of a group that are packed by length. Without shuffling, rows are in
// the order of their first samples.
struct RowOrder {
  bool shuffle = false;
  SampleOrderKey key = {};
};

class PackGroups {
 public:
  // `source` has lengths; source, window and options are borrowed.
  PackGroups(DataSource& source,
             const Window* window,
             const SampleOrder& order,
             const PackOptions& options,
             const RowOrder& rows);

  int64_t num_groups() const;

  struct Group {
    std::vector<PackRow> rows;
    PackCounts dropped;  // over_long and lost only; PackPlan assigns them to rows
  };
  // Returns the rows of a group, 0 <= number < num_groups().
  //
  // Errors   data.too_long for a sample that is longer than a row, with OverLong::kError; errors of
  //          the source
  Group group(int64_t number) const;

  // Returns the samples of each part of a mix before a position in the window.
  std::vector<int64_t> part_samples(const PackPosition& position) const;

 private:
  std::vector<PackPiece> pieces_of(int64_t number, PackCounts& dropped) const;
  std::vector<uint32_t> row_order(int64_t number, std::size_t num_rows) const;

  DataSource& source_;
  const Window* window_;
  SampleOrder order_;
  const PackOptions& options_;
  RowOrder rows_;
};

// Throws data.too_long for the longest sample of a window, if it is longer than a row. `window` is
// null without windows.
void check_longest(const LengthSummary& lengths, const Window* window, const PackOptions& options);

}  // namespace tenon
