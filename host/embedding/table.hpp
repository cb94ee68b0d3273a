// SPDX-License-Identifier: Apache-2.0
//
// One table: a growing map from 64-bit ids to rows, and the rows with their optimizer state. It
// handles no batches, models or other ranks; table_set.hpp does.
//
// The fields of a row are its value, an optional fp32 master, slots, the occurrences of its id in
// training, and the step of its last update. sparse_optimizer.h has the formula of their addresses.
// Rows lie in blocks that never move; freed rows are reused.
//
// Invariants: The content of a row depends on its id, the table's seed and its updates, never on
// the order of ids, on other ids or on threads. No call takes time proportional to the size of the
// table, unless its comment says so.
// Threads: one call at a time. Several threads may call `find` and `read` while no other call runs.
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
  // Errors  table.bad_spec: an invalid size, dtype, slot, initializer or option
  explicit Table(const TableSpec& spec);
  ~Table() override;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  const TableSpec& spec() const;
  int64_t num_rows() const;
  // Ids that have occurred but have no row yet, because they are not admitted.
  int64_t num_waiting() const;
  // Bytes of the whole table, and of one row with all its fields but without the index.
  int64_t num_bytes() const;
  int64_t row_bytes() const;
  TableCounts take_counts();

  // Finds the rows of ids; kNoRow for ids without a row. Changes nothing.
  // Shapes  ids [n], rows [n]
  void find(std::span<const int64_t> ids, std::span<int64_t> rows) const;

  // Finds the rows of ids in training. An id without a row gets a row if it is admitted. `counts`
  // has the new occurrences of each id.
  // Shapes  ids [n], distinct; counts [n]; rows [n]
  // Errors  table.full: the table is at max_bytes, or the system has no more memory. Ids before the
  //         one that did not fit have rows; nothing is lost
  void find_or_insert(std::span<const int64_t> ids,
                      std::span<const int64_t> counts,
                      std::span<int64_t> rows);

  // Reads the value that find_or_insert() and then read() would give for an id, after `earlier`
  // occurrences that the table has not counted and `count` more. Returns whether the id would have
  // a row. Changes nothing.
  // Shapes  out [dim]
  bool preview(int64_t id, int64_t earlier, int64_t count, std::span<float> out) const;

  // Reads the values of rows, widened to fp32. For kNoRow, all elements are TableSpec::missing.
  // Shapes  out [rows, dim], `stride` floats apart
  void read(std::span<const int64_t> rows, float* out, int64_t stride) const;

  // Sets the values of rows, and their masters if they have any.
  // Shapes  values [rows, dim], `stride` floats apart; rows: without kNoRow
  void write(std::span<const int64_t> rows, const float* values, int64_t stride);

  // Addresses of rows, for an optimizer. Valid until the next call that inserts.
  const tenon_row_layout& layout() const;

  // Records an update of these rows in step `step` of the run, after `counts` more occurrences of
  // their ids.
  void note_update(std::span<const int64_t> rows, std::span<const int64_t> counts, int64_t step);

  // Ends a step. Evicts rows that are due, from one part of the table per step.
  void end_step(int64_t step);

  // Occurrences of a row's id in training, and the step of its last update.
  struct RowInfo {
    int64_t count = 0;
    int64_t last_step = 0;
  };
  RowInfo info(int64_t row) const;

  // Prepares rows for imported values. Gives each id a row, admitted or not, and resets existing
  // rows to initial values. Sets their counts and last steps from `infos`.
  // Shapes  ids [n], distinct; infos [n]; rows [n]
  // Errors  table.full, as for find_or_insert
  void renew(std::span<const int64_t> ids, std::span<const RowInfo> infos, std::span<int64_t> rows);

  // Prepares to take rows of a saved table, in or before step `step` + 1. An empty table continues
  // the steps of the saved table, so that rows and waiting ids keep their ages. If the run is past
  // these steps, only rows do. Returns what to add to the last steps of saved rows.
  int64_t continue_steps(const StateTree& tree, const std::string& prefix, int64_t step);
  // Takes saved ids that wait for admission, with their occurrences, unless they have a row here.
  // Errors  table.full, table.bad_state
  void take_waiting(const StateTree& tree,
                    const std::string& prefix,
                    const std::function<bool(int64_t id)>& is_mine);

  // Returns all ids with rows, ascending. Takes time proportional to the size of the table.
  std::vector<int64_t> ids() const;

  // Stateful. Saves the ids, ascending, the fields of their rows as tensors in the same order, and
  // the counts of ids not admitted yet. Loading restores the same bits. Both take time proportional
  // to the size of the table.
  void snapshot(StateTree& tree, const std::string& prefix) const override;
  void load(const StateTree& tree, const std::string& prefix) override;
  // Loads this rank's rows from a state of all ranks. If the number of ranks has changed, counts
  // since the last record and the position of the search for excess rows are not restored.
  void load(const StateTree& tree,
            const std::string& prefix,
            const std::function<bool(int64_t id)>& is_mine);

 private:
  std::unique_ptr<TableParts> parts_;
};

}  // namespace tenon
