// SPDX-License-Identifier: Apache-2.0
//
// Describes a table before it exists: its rows, which ids get one, and which rows are evicted.
#pragma once

#include <tenon/model.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// The row of an id that has none.
inline constexpr int64_t kNoRow = -1;

struct RowSlot {
  std::string name;        // "exp_avg"
  bool is_scalar = false;  // one number a row, else one for each element of the value
  uint32_t dtype = TENON_F32;
  double init = 0;

  bool operator==(const RowSlot&) const = default;
};

struct RowInit {
  uint32_t kind = TENON_INIT_ZEROS;  // TENON_INIT_*, but MODULE
  double a = 0;
  double b = 0;

  bool operator==(const RowInit&) const = default;
};

// Which ids get a row. One that is not admitted reads as an id that is not there.
struct AdmitOptions {
  int64_t count = 1;       // when it has been seen so often in training
  double probability = 1;  // each time it is seen, drawn from (seed, id, how often it was seen)
};

enum class EvictPolicy { kLeastRecent, kLeastFrequent };

// Which rows go, between steps. Both are found by looking at a part of the table each step, the
// same part wherever the rows lie: those that are due by unseen_steps go an eighth of that time
// later at the latest; of max_rows, what is too much is the worst eighth of a part.
struct EvictOptions {
  std::optional<int64_t> unseen_steps;  // not updated for this many steps
  std::optional<int64_t> min_count;     // and, if given: only those seen less often than this
  // Of the table on this rank, never more after a step. Rows of that step go only if without them
  // there are not enough.
  std::optional<int64_t> max_rows;
  EvictPolicy policy = EvictPolicy::kLeastRecent;
};

struct TableSpec {
  std::string name;
  uint32_t dim = 0;
  uint32_t value_dtype = TENON_F32;  // TENON_F32, TENON_BF16 or TENON_F16
  bool has_master = false;           // an fp32 copy of the value, which is what updates change
  RowInit init;
  std::vector<RowSlot> slots;
  uint64_t seed = 0;
  std::optional<int64_t> max_bytes;  // of memory, all told
  double missing = 0;                // each element of what a read-only lookup of no row gives
  AdmitOptions admit;
  EvictOptions evict;
};

// What a table has done since it was made, or since the last `take_counts`.
struct TableCounts {
  int64_t inserted = 0;
  int64_t refused = 0;  // occurrences of ids that were not admitted
  int64_t evicted = 0;
};

}  // namespace tenon
