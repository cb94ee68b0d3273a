// SPDX-License-Identifier: Apache-2.0
//
// One table: a growing map from 64-bit ids to rows, and the rows with what an optimizer keeps
// beside them. It knows no batch, no model and no other rank; table_set.hpp does.
//
// A row's fields lie side by side (sparse_optimizer.h has the formula of their addresses): its
// value, an fp32 master where there is one, slots, how often its id was seen in training, and the
// step that updated it last. Rows lie in blocks that never move; a row that is freed is used again.
//
// Invariants: what a row holds depends on its id, the table's seed and its updates, never on the
// order in which ids came, on other ids or on threads; no call takes time in proportion to the size
// of the table, but for those that say so.
// Threads: one call at a time, but `find`, `read` and `row_fields` of several threads at once,
// while no other call is under way.
#pragma once

#include <tenon/draft/sparse_optimizer.h>

#include "host/embedding/table_spec.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

struct TableParts;

class Table final : public Stateful {
 public:
  // Errors  table.bad_spec: a size, dtype, slot, initialiser or option that is none
  explicit Table(const TableSpec& spec);
  ~Table() override;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  const TableSpec& spec() const;
  int64_t num_rows() const;
  // Ids that were seen and have no row yet, since they are not admitted.
  int64_t num_waiting() const;
  // All memory of the table; and of one row with all its fields, without the index.
  int64_t num_bytes() const;
  int64_t row_bytes() const;
  TableCounts take_counts();

  // The rows of ids, kNoRow where there is none. Nothing changes.
  // Shapes  rows as ids
  void find(std::span<const int64_t> ids, std::span<int64_t> rows) const;

  // The same in training: an id without a row gets one if it is admitted. `counts` says how often
  // each was seen.
  // Shapes  ids, distinct, and counts and rows as ids
  // Errors  table.full: the table is at max_bytes. Ids before the one that did not fit have rows;
  //         nothing is lost
  void find_or_insert(std::span<const int64_t> ids,
                      std::span<const int64_t> counts,
                      std::span<int64_t> rows);

  // The values of rows, widened to fp32; `missing` for kNoRow.
  // Shapes  out [rows, dim], `stride` floats apart
  void read(std::span<const int64_t> rows, float* out, int64_t stride) const;

  // Sets values, and masters where there are some.
  // Shapes  values [rows, dim], `stride` floats apart; rows: none of them kNoRow
  void write(std::span<const int64_t> rows, const float* values, int64_t stride);

  // Where rows lie, for an optimizer. It lasts until the next call that inserts.
  const tenon_row_layout& layout() const;

  // Notes that these rows were updated in `step`, their ids having been seen so often.
  void note_update(std::span<const int64_t> rows, std::span<const int64_t> counts, int64_t step);

  // Between steps: evicts what is due, a part of the table at a time.
  void end_step(int64_t step);

  // Counts and last step of a row, for people and tests.
  struct RowInfo {
    int64_t count = 0;
    int64_t last_step = 0;
  };
  RowInfo info(int64_t row) const;

  // For rows that come from elsewhere: each id gets a row, admitted or not, or the one that it has
  // begins anew; its count and last step are what `infos` say.
  // Shapes  ids, distinct, infos and rows as ids
  // Errors  table.full, as find_or_insert
  void renew(std::span<const int64_t> ids, std::span<const RowInfo> infos, std::span<int64_t> rows);

  // All ids with rows, ascending. Takes time in proportion to the size of the table.
  std::vector<int64_t> ids() const;

  // Stateful: ids, ascending, and the fields of their rows as tensors aligned with them; counts of
  // ids that are not admitted yet. Loading gives each row the same bits.
  void snapshot(StateTree& tree, const std::string& prefix) const override;
  void load(const StateTree& tree, const std::string& prefix) override;
  // The rows of a state of all ranks that are this rank's; counts since the last record and what a
  // sweep has left are not carried over where ranks have changed.
  void load(const StateTree& tree,
            const std::string& prefix,
            const std::function<bool(int64_t id)>& is_mine);

 private:
  std::unique_ptr<TableParts> parts_;
};

}  // namespace tenon
