// SPDX-License-Identifier: Apache-2.0
//
// One CSV file with random access to its rows: column names, row offsets, and the fields of
// requested rows. csv_fields.hpp interprets the fields.
// Invariants: every row has as many fields as the file has columns. Rows are read by `pread`; a
// file that changed after it was opened is an error.
// Threads: opened by one thread; any number of threads read at once.
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
  bool has_header = true;  // false: columns are named "0", "1", ...
};

// A row during a callback.
struct CsvRow {
  const std::vector<CsvField>& fields;
  int64_t offset;  // of its first byte in the file
};

enum class RowDecision { kKeep, kSkip };

class CsvTable {
 public:
  // Opens a file and reads its column names, but no rows.
  //
  // Errors   csv.open, csv.no_file, csv.read; csv.empty; csv.syntax
  CsvTable(const std::string& path, const CsvFormat& format);

  const std::string& path() const { return file_.path(); }
  const std::vector<std::string>& columns() const { return columns_; }

  // Scans the whole file once and stores the offsets of its rows. Rows rejected by `check_row` get
  // no index.
  //
  // Errors   csv.syntax, csv.ragged, csv.too_long, csv.changed; errors of `check_row`
  void index_rows(const std::function<RowDecision(const CsvRow&)>& check_row);

  int64_t num_rows() const { return static_cast<int64_t>(offsets_.size()); }

  // Reads the rows with indices `numbers`, each in [0, num_rows()), and passes them to `take` in
  // this order.
  //
  // Errors   csv.read, csv.short, csv.changed; errors of `take`
  void read_rows(const std::vector<int64_t>& numbers,
                 const std::function<void(size_t, const CsvRow&)>& take) const;

  // Line number, from 1, of the byte at `offset`. Reads the file up to that byte; use only for
  // messages.
  int64_t line_at(int64_t offset) const;

  // True for the first row of a file read without a header.
  bool is_unnamed_start(int64_t offset) const {
    return !format_.has_header && offset == first_row_;
  }

  // "FILE:LINE: " for the row at `offset`.
  std::string place_of(int64_t offset) const;

  // "FILE, line LINE" of a row. As slow as line_at().
  std::string place_of_row(int64_t number) const;

 private:
  [[noreturn]] void fail_syntax(const CsvProblem& problem, int64_t record_offset) const;
  void check_width(const CsvRow& row) const;

  StableFile file_;
  CsvFormat format_;
  std::vector<std::string> columns_;
  int64_t first_row_ = 0;         // offset after the header
  std::vector<int64_t> offsets_;  // start of each row
  std::vector<uint32_t> sizes_;   // size of each row, bytes
};

}  // namespace tenon
