// SPDX-License-Identifier: Apache-2.0
//
// The output of --table NAME --id N: one row of a table, as text or as JSON. To read many rows, use
// the exported Parquet files.

#pragma once

#include "host/embedding/row_file.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

enum class RowTextForm { kLines, kJson };

struct ShownRow {
  std::string table;
  std::int64_t id;
  std::string source;  // the file or other source of the row
};

// Returns the row as text that ends in a line break. Numbers have full precision: they parse to the
// same value.
std::string row_text(const ShownRow& row, const std::vector<RowColumn>& columns, RowTextForm form);

// Finds a row in exported files and returns its text.
//
// Errors  table.no_row; table.bad_file
std::string exported_row_text(const std::string& folder,
                              const std::string& table,
                              std::int64_t id,
                              RowTextForm form);

}  // namespace tenon
