// SPDX-License-Identifier: Apache-2.0
//
// Rows of a table in a Parquet file that other programs can read: a column `id`, ascending, and a
// column `vector`, a list of floats. With optimizer state also `count`, `last_step`, `master` and
// `slot.NAME`. Reads files that it wrote, now or in earlier releases, and files of other programs
// that have the columns `id` and `vector` without nulls. Not for checkpoints, and not for training
// data.
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
  kAll      // optimizer state, counts and steps, too
};

// Writes all rows. The file appears when it is complete.
//
// Errors  table.bad_file: it cannot be written
void write_rows(const Table& table, RowParts parts, const std::filesystem::path& file);

// Gives the ids of a file their rows, admitted or not: those that the table has are overwritten.
// Slots and counts that the file lacks get their initial values. `is_wanted` chooses ids; null for
// all. Returns the number of rows read.
//
// Errors  table.bad_file: it cannot be read, is no Parquet file, or has another dim. The table is
//         unchanged, unless a later row group cannot be read: the rows before it stay.
//         table.full
int64_t read_rows(Table& table,
                  const std::filesystem::path& file,
                  const std::function<bool(int64_t)>& is_wanted = nullptr);

// A column of one row: its name and its numbers, of which there is one where it is no list.
struct RowColumn {
  std::string name;
  std::vector<double> numbers;
  bool is_list = true;

  bool operator==(const RowColumn&) const = default;
};

// All that a file has of an id, in the order of its columns; nothing where it has no such row.
//
// Errors  table.bad_file
std::optional<std::vector<RowColumn>> find_row(const std::filesystem::path& file, int64_t id);

}  // namespace tenon
