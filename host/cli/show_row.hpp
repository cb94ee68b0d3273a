// SPDX-License-Identifier: Apache-2.0
//
// --table NAME --id N: prints one row of a table, as text or as JSON. To read many rows, use the
// exported Parquet files.

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
  std::string place;  // the file or other source of the row
};

// Ends in a line break. Numbers are printed with full precision, so that they parse to the same
// value.
std::string row_text(const ShownRow& row, const std::vector<RowColumn>& columns, RowTextForm form);

// The same for an exported row.
//
// Errors  table.no_row; table.bad_file
std::string exported_row_text(const std::string& folder,
                              const std::string& table,
                              std::int64_t id,
                              RowTextForm form);

}  // namespace tenon
