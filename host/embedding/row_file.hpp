// SPDX-License-Identifier: Apache-2.0
//
// Rows of a table in a Parquet file that other programs can read: a column `id`, ascending, and a
// column `vector`, a list of floats. With optimizer state also `count`, `last_step`, `master` and
// `slot.NAME`. Reads files of this and earlier releases, and files of other programs that have the
// columns `id` and `vector` without nulls. Not for checkpoints, and not for training data.
// Invariant: at most one row group is in memory.
// Threads: any, one call at a time on one table.
// All functions: Errors  table.parquet_unavailable

#pragma once

#include "host/embedding/table.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

enum class RowParts {
  kValues,  // id and vector
  kAll      // also optimizer state, counts and steps
};

// Writes all rows. The file appears only when it is complete, and is then on the disk.
//
// Errors  table.bad_file: the file cannot be written
void write_rows(const Table& table, RowParts parts, const std::filesystem::path& file);

// Adds the rows of a file to a table, admitted or not, and overwrites existing rows. Slots and
// counts that the file lacks get their initial values. `is_wanted` selects ids; null selects all.
// Returns the number of rows added or overwritten.
//
// Errors  table.bad_file: the file cannot be read, is not a Parquet file, or has another dim. The
//         table is unchanged, except that rows before an unreadable row group stay.
//         table.full
int64_t read_rows(Table& table,
                  const std::filesystem::path& file,
                  const std::function<bool(int64_t)>& is_wanted = nullptr);

// A column of one row: its name and its numbers; one number if the column is not a list.
struct RowColumn {
  std::string name;
  std::vector<double> numbers;
  bool is_list = true;

  bool operator==(const RowColumn&) const = default;
};

// Returns all columns of an id's row except `id`, in file order; nothing if no such row exists.
//
// Errors  table.bad_file
std::optional<std::vector<RowColumn>> find_row(const std::filesystem::path& file, int64_t id);

}  // namespace tenon
