// SPDX-License-Identifier: Apache-2.0
//
// The members of a table, for the three files that define it: table.cpp looks up and admits ids,
// table_eviction.cpp removes rows, table_state.cpp saves and loads. Not for other files.
// Threads: as for Table.
#pragma once

#include "host/embedding/id_index.hpp"
#include "host/embedding/row_store.hpp"
#include "host/embedding/table_spec.hpp"
#include "host/error/error.hpp"
#include "host/tensor/philox.hpp"
#include "host/tensor/state/state_tree.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

inline constexpr size_t kAhead = 24;  // ids prefetched ahead

// The number that the index stores for an id that is not admitted yet. It encodes the occurrences
// of the id, up to kMostSeen, and roughly the step of the last one, in units of age_unit() steps,
// modulo kAges. It is negative, and never IdIndex::kNothing.
inline constexpr int kSeenBits = 20;
inline constexpr int64_t kMostSeen = (int64_t{1} << kSeenBits) - 1;
inline constexpr int64_t kAges = 2047;

struct Waiting {
  int64_t seen = 0;
  int64_t age = 0;
};

inline int32_t number_of(Waiting waiting) {
  return static_cast<int32_t>(-1 - (waiting.age << kSeenBits | waiting.seen));
}
inline Waiting waiting_of(int32_t number) {
  const int64_t code = -1 - int64_t{number};
  return {code & kMostSeen, code >> kSeenBits};
}

inline uint32_t narrowed(int64_t n) {
  return static_cast<uint32_t>(std::clamp<int64_t>(n, 0, UINT32_MAX));
}

struct TableParts {
  explicit TableParts(const TableSpec& table_spec) : spec(table_spec), rows(table_spec) {}

  [[noreturn]] void bad_spec(const std::string& what) const {
    throw Error("table.bad_spec", "table '" + spec.name + "': " + what);
  }

  void check_spec() const {
    const AdmitOptions& admit = spec.admit;
    if (admit.count < 1 || admit.count > kMostSeen) {
      bad_spec(formatted(
          "ids cannot be admitted at a count of {}; choose 1 to {}", admit.count, kMostSeen));
    }
    if (!(admit.probability > 0 && admit.probability <= 1)) {
      bad_spec("ids cannot be admitted with a probability of " + std::to_string(admit.probability) +
               "; choose one above 0 and up to 1");
    }
    const EvictOptions& evict = spec.evict;
    for (const auto& [what, n] : {std::pair{"unseen_steps", evict.unseen_steps},
                                  std::pair{"min_count", evict.min_count},
                                  std::pair{"max_rows", evict.max_rows}}) {
      if (n && *n < 1) {
        bad_spec(formatted("an eviction by {} {} would leave nothing; choose 1 or more", what, *n));
      }
    }
    if (evict.min_count && !evict.unseen_steps) {
      bad_spec(
          "min_count says which of the rows that were not seen for unseen_steps go; "
          "give unseen_steps too");
    }
    if (spec.max_bytes && *spec.max_bytes < num_bytes()) {
      bad_spec(
          formatted("it takes {} bytes without a row, and may take {}; give it more with `bytes`",
                    num_bytes(),
                    *spec.max_bytes));
    }
  }

  int64_t num_bytes() const { return index.num_bytes() + rows.num_bytes(); }

  // Throws table.full if one more id in the index, and one more row if `with_row`, would exceed the
  // limits of the table.
  void check_room(bool with_row) const {
    if (with_row && rows.is_full()) {
      full("no table holds more rows than that on a rank; use more ranks");
    }
    if (spec.max_bytes) {
      const int64_t bytes = index.num_bytes_after_insert() +
                            (with_row ? rows.num_bytes_after_add() : rows.num_bytes());
      if (bytes > *spec.max_bytes) {
        full(
            formatted("with one id more it takes {}, and `bytes` allows {}; raise it, bound the "
                      "table with `evict` (max_rows, unseen_steps), let ids in later with "
                      "`admit`, or use more ranks",
                      bytes,
                      *spec.max_bytes));
      }
    }
  }

  [[noreturn]] void full(const std::string& what) const {
    throw Error("table.full",
                formatted("table '{}' is full: it has {} rows in {} bytes, {} a row; {}",
                          spec.name,
                          rows.num_rows(),
                          num_bytes(),
                          rows.row_bytes(),
                          what));
  }

  bool admits_all() const { return spec.admit.count <= 1 && spec.admit.probability >= 1; }

  // Returns true if any of `count` occurrences, after `seen` earlier ones, admits the id.
  bool is_admitted(int64_t id, int64_t seen, int64_t count) const {
    const AdmitOptions& admit = spec.admit;
    const int64_t last = std::min(seen + count, kMostSeen);
    if (last == kMostSeen) {
      return true;  // the counter is saturated
    }
    const int64_t first = std::max(seen + 1, admit.count);
    if (first > last) {
      return false;
    }
    if (admit.probability >= 1) {
      return true;
    }
    const uint64_t stream = mix_seeds(spec.seed ^ 0x61646D6974ULL, static_cast<uint64_t>(id));
    for (int64_t k = first; k <= last; ++k) {
      const uint64_t bits = mix_seeds(stream, static_cast<uint64_t>(k));
      if (static_cast<double>(bits >> 11) * 0x1p-53 < admit.probability) {
        return true;
      }
    }
    return false;
  }

  // Steps per unit of a waiting id's age. kAges units are many times unseen_steps.
  int64_t age_unit() const {
    return std::max<int64_t>(1, spec.evict.unseen_steps.value_or(1) / 256);
  }
  int64_t age_now() const { return step / age_unit() % kAges; }

  // Returns true if insert() would add a row, after `earlier` occurrences that are not in `number`.
  bool would_insert(int64_t id, int64_t earlier, int64_t count, const int32_t* number) const {
    if (spec.padding_id == id) {
      return false;
    }
    const int64_t seen = (number != nullptr ? waiting_of(*number).seen : 0) + earlier;
    return admits_all() || is_admitted(id, std::min(seen, kMostSeen), count);
  }

  // Adds a row for an id that has none, or returns kNoRow if the id is not admitted. `number`
  // points to the id's number in the index, or is null.
  int64_t insert(int64_t id, int64_t count, int32_t* number) {
    if (spec.padding_id == id) {
      return kNoRow;
    }
    int64_t seen = 0;
    if (!admits_all()) {
      seen = number != nullptr ? waiting_of(*number).seen : 0;
      if (!is_admitted(id, seen, count)) {
        const int32_t noted = number_of({std::min(seen + count, kMostSeen), age_now()});
        if (number != nullptr) {
          *number = noted;
        } else {
          check_room(/*with_row=*/false);
          index.insert(id, noted);
          ++num_waiting;
        }
        counts.refused += count;
        return kNoRow;
      }
    }
    const int64_t row = add_row(id, {narrowed(seen), narrowed(step)}, number);
    ++counts.inserted;
    return row;
  }

  // Adds a row for an id that has none, admitted or not. `number` is as for `insert`.
  int64_t add_row(int64_t id, RowNotes notes, int32_t* number) {
    if (spec.max_bytes || rows.is_full()) {
      check_room(/*with_row=*/true);
    }
    const int64_t row = rows.add(spec.seed, id, notes);
    if (number != nullptr) {
      *number = static_cast<int32_t>(row);
      --num_waiting;
    } else {
      try {
        index.insert(id, static_cast<int32_t>(row));
      } catch (...) {
        rows.free(row);
        throw;
      }
    }
    return row;
  }

  // Evicts unseen rows of one part of the table, at the end of step `ended`.
  void evict_unseen(int64_t ended);
  // Evicts `excess` rows: the worst of about eight times as many rows.
  void evict_excess(int64_t ended, int64_t excess);

  // Calls due(notes) for each row, and waiting_due(waiting) for each waiting id, whose hash lies in
  // the range. Removes those for which the call returns true.
  template <class Due, class WaitingDue>
  void sweep(uint64_t first, uint64_t last, Due&& due, WaitingDue&& waiting_due);
  // Calls use(hash, id, notes) for each row whose id has a hash in the range.
  template <class Use>
  void collect(uint64_t first, uint64_t last, Use&& use);

  // Returns all ids with their numbers in the index, sorted by id.
  std::vector<std::pair<int64_t, int32_t>> sorted_entries() const;
  // Returns the name of a field in the state: "values", "master", "slots/exp_avg".
  std::string field_name(size_t f) const;

  void put_counts(StateTree& tree, const std::string& prefix) const;

  // Parts of loading a saved state, in call order. The first returns the number of saved rows.
  // Errors  table.bad_state
  int64_t check_saved(const StateTree& tree, const std::string& prefix) const;
  void load_counts(const StateTree& tree, const std::string& prefix);
  void load_rows(const StateTree& tree,
                 const std::string& prefix,
                 int64_t first,
                 int64_t size,
                 const std::function<bool(int64_t id)>& is_mine);
  void load_waiting(const StateTree& tree,
                    const std::string& prefix,
                    const std::function<bool(int64_t id)>& is_mine);
  void check_is_new(int64_t id) const;
  // Calls use(id, number) for each saved waiting id.
  // Errors  table.bad_state
  void for_each_waiting(const StateTree& tree,
                        const std::string& prefix,
                        const std::function<void(int64_t id, int32_t number)>& use) const;

  TableSpec spec;
  mutable IdIndex index;  // visits without removals do not change it
  RowStore rows;
  TableCounts counts;
  int64_t num_waiting = 0;
  int64_t step = 0;          // current step, with those of earlier runs
  int64_t steps_before = 0;  // of earlier runs, whose rows an empty table has taken
  uint64_t sweep_at = 0;     // hash at which the next sweep starts
  uint64_t excess_at = 0;    // hash at which the next search for excess rows starts
};

}  // namespace tenon
