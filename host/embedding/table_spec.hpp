// SPDX-License-Identifier: Apache-2.0
//
// Describes a table before it is created: its rows, which ids get rows, and which rows are evicted.
#pragma once

#include <tenon/model.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

// Returned as the row of an id that has no row.
inline constexpr int64_t kNoRow = -1;

struct RowSlot {
  std::string name;        // "exp_avg"
  bool is_scalar = false;  // one number per row; else one per element of the value
  uint32_t dtype = TENON_F32;
  double init = 0;

  bool operator==(const RowSlot&) const = default;
};

struct RowInit {
  uint32_t kind = TENON_INIT_ZEROS;  // TENON_INIT_* except MODULE
  double a = 0;
  double b = 0;

  bool operator==(const RowInit&) const = default;
};

// Which ids get a row. An id that is not admitted reads as an unknown id.
struct AdmitOptions {
  int64_t count = 1;       // occurrences in training that an id needs for a row
  double probability = 1;  // at each occurrence from then on; drawn from (seed, id, occurrences)
};

enum class EvictPolicy { kLeastRecent, kLeastFrequent };

// Which rows are evicted between steps. Each step examines one part of the table. The part is a
// range of id hashes, independent of the memory layout. Rows that are due by unseen_steps are
// evicted at most unseen_steps / 8 steps late. Rows in excess of max_rows are about the worst
// eighth of the part.
struct EvictOptions {
  std::optional<int64_t> unseen_steps;  // not updated for this many steps
  std::optional<int64_t> min_count;     // if given: only rows with fewer occurrences than this
  // Maximum number of rows on this rank after a step. Rows updated in that step are evicted only if
  // there are too few others.
  std::optional<int64_t> max_rows;
  EvictPolicy policy = EvictPolicy::kLeastRecent;
};

struct TableSpec {
  std::string name;
  uint32_t dim = 0;
  uint32_t value_dtype = TENON_F32;  // TENON_F32, TENON_BF16 or TENON_F16
  bool has_master = false;           // updates change an fp32 copy of the value
  RowInit init;
  std::vector<RowSlot> slots;
  uint64_t seed = 0;
  std::optional<int64_t> max_bytes;   // of memory in total; none: no limit
  double missing = 0;                 // value of each element for an id without a row
  std::optional<int64_t> padding_id;  // never has a row; none: every id may get one
  AdmitOptions admit;
  EvictOptions evict;

  // Selects the ids of `is_mine` that may have a row.
  std::function<bool(int64_t id)> with_rows(std::function<bool(int64_t id)> is_mine) const {
    return [padding = padding_id, is_mine = std::move(is_mine)](int64_t id) {
      return id != padding && (is_mine == nullptr || is_mine(id));
    };
  }
};

// Counts of a table since it was created or since the last `take_counts`.
struct TableCounts {
  int64_t inserted = 0;
  int64_t refused = 0;  // occurrences of ids that were not admitted
  int64_t evicted = 0;
};

}  // namespace tenon
