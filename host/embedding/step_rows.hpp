// SPDX-License-Identifier: Apache-2.0
//
// The distinct ids of a step in one table, with their rows, values and gradients.
// Threads: one at a time.
#pragma once

#include "host/embedding/distinct_ids.hpp"
#include "host/embedding/pooling.hpp"
#include "host/embedding/row_exchange.hpp"
#include "host/embedding/table.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tenon {

// Vectors are indexed by position: the number of an id among the distinct ids.
struct StepRows {
  DistinctIds ids;
  std::vector<int64_t> rows;     // of this rank's table, or kNoRow
  std::vector<uint8_t> has_row;  // 1 if the id has a row, on any rank
  std::vector<float> values;     // [ids, dim]
  std::vector<float> grads;      // [ids, dim]; shorter if the last ids have no gradient
  std::vector<int64_t> used;     // entries that contributed a gradient
  // List of positions to look up: their ids are new, or had no row so far.
  std::vector<uint32_t> pending;
  std::vector<int64_t> seen;       // occurrences since the last lookup
  std::vector<int64_t> previewed;  // occurrences in earlier previews; empty if there are none

  void add(const LookupIds& lookup, std::vector<uint32_t>& positions) {
    const auto n = static_cast<size_t>(lookup.num_entries());
    const auto* const entries = lookup.ids.const_data_ptr<int64_t>();
    positions.resize(n);
    for (size_t e = 0; e < n; ++e) {
      const uint32_t position = ids.add(entries[e]);
      positions[e] = position;
      if (position == rows.size()) {
        make_room();
      }
      if (has_row[position] == 0 && seen[position]++ == 0) {
        pending.push_back(position);
      }
    }
  }

  // Adds ids that another rank has counted.
  void add(const RowExchange::Asked& asked, std::vector<uint32_t>& positions) {
    positions.resize(asked.ids.size());
    for (size_t i = 0; i < asked.ids.size(); ++i) {
      const uint32_t position = ids.add(asked.ids[i]);
      positions[i] = position;
      if (position == rows.size()) {
        make_room();
      }
      if (has_row[position] == 0) {
        if (seen[position] == 0) {
          pending.push_back(position);
        }
        seen[position] += asked.counts[i];
      }
    }
  }

  // Looks up the pending ids as training would, without a change of the table. Sets no `rows`.
  void preview(const Table& table) {
    const size_t dim = table.spec().dim;
    values.resize(rows.size() * dim);
    previewed.resize(rows.size(), 0);
    for (const uint32_t position : pending) {
      const int64_t count = std::exchange(seen[position], 0);
      has_row[position] = table.preview(ids.ids()[position],
                                        previewed[position],
                                        count,
                                        {values.data() + position * dim, dim})
                              ? 1
                              : 0;
      previewed[position] += count;
    }
    pending.clear();
  }

  void make_room() {
    rows.push_back(kNoRow);
    has_row.push_back(0);
    used.push_back(0);
    seen.push_back(0);
  }

  void clear() {
    ids.clear();
    rows.clear();
    has_row.clear();
    values.clear();
    grads.clear();
    used.clear();
    pending.clear();
    seen.clear();
    previewed.clear();
  }
};

}  // namespace tenon
