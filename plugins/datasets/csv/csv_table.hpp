// SPDX-License-Identifier: Apache-2.0
//
// One file of CSV as rows that can be read in any order: its columns, where each row lies, and the
// fields of the rows that are asked for. What a field means is csv_fields.hpp's.
// Invariants: every row has as many fields as the file has columns; rows are read by `pread`, and a
// file that has changed since it was opened is an error, never other data.
// Threads: opened by one; read by any number at once.
#pragma once

#include <tenon/cpp/stable_file.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "csv_parser.hpp"

namespace tenon {

struct CsvFormat {
  CsvDialect dialect;
  bool has_header = true;  // false: columns are called "0", "1", ...
};

// A row while it is looked at.
struct CsvRow {
  const std::vector<CsvField>& fields;
  int64_t offset;  // of its first byte in the file
};

enum class CsvVerdict { kKeep, kLeaveOut };

class CsvTable {
 public:
  // Opens a file and reads its columns, and no row.
  //
  // Errors   csv.open, csv.no_file, csv.read; csv.empty; csv.syntax
  CsvTable(const std::string& path, const CsvFormat& format);

  const std::string& path() const { return file_.path(); }
  const std::vector<std::string>& columns() const { return columns_; }

  // Goes through the whole file once and notes where its rows lie; those that `judge` leaves out
  // get no number.
  //
  // Errors   csv.syntax, csv.ragged, csv.too_long, csv.changed; what `judge` throws
  void index_rows(const std::function<CsvVerdict(const CsvRow&)>& judge);

  int64_t num_rows() const { return static_cast<int64_t>(offsets_.size()); }

  // Reads the rows `numbers`, each in [0, num_rows()), and hands them over in this order.
  //
  // Errors   csv.read, csv.short, csv.changed; what `take` throws
  void read_rows(const std::vector<int64_t>& numbers,
                 const std::function<void(size_t, const CsvRow&)>& take) const;

  // The number of the line that holds the byte at `offset`, from 1. Reads the file up to there: for
  // messages.
  int64_t line_at(int64_t offset) const;

  // True of the first row of a file that is read as one without a header.
  bool is_unnamed_start(int64_t offset) const {
    return !format_.has_header && offset == first_row_;
  }

  // "FILE:LINE: " of the row at `offset`.
  std::string place_of(int64_t offset) const;

 private:
  [[noreturn]] void fail_syntax(const CsvProblem& problem, int64_t record_offset) const;
  void check_width(const CsvRow& row) const;

  StableFile file_;
  CsvFormat format_;
  std::vector<std::string> columns_;
  int64_t first_row_ = 0;         // the byte after the header
  std::vector<int64_t> offsets_;  // of each row
  std::vector<uint32_t> sizes_;   // of each row, in bytes
};

}  // namespace tenon
