// SPDX-License-Identifier: Apache-2.0
//
// Converts the texts of a row to numbers: the columns of a batch field, missing values and value
// limits.
// Threads: built by one thread; const functions from any thread.
#pragma once

#include <tenon/cpp/options.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "csv_table.hpp"

namespace tenon {

enum class CsvDtype { kI64, kF32, kF64 };
enum class CsvMissing { kError, kFill, kSkipRow };

struct CsvFieldOptions {
  std::string name;
  std::optional<std::string> column;
  std::vector<std::string> columns;
  CsvDtype dtype = CsvDtype::kF32;
  CsvMissing missing = CsvMissing::kError;
  double fill = 0.0;
  std::optional<double> min;
  std::optional<double> max;

  static void bind(OptionBinder<CsvFieldOptions>& binder);
};

// A batch field, bound to the columns of one file.
class CsvFieldReader {
 public:
  // `options` and `marks` (texts that mean a missing value) are borrowed.
  //
  // Errors   csv.no_column
  CsvFieldReader(const CsvFieldOptions& options,
                 const std::vector<std::string>& marks,
                 const CsvTable& table);

  // Number of source columns.
  size_t width() const { return columns_.size(); }

  // True if the row is skipped because of a missing value.
  bool skips(const CsvRow& row) const;

  // Writes the width() values of a row to `out`, an array of the field's dtype.
  //
  // Errors   csv.missing, csv.value, csv.out_of_range; all name file, line and column
  void read(const CsvTable& table, const CsvRow& row, void* out) const;

 private:
  bool is_missing(std::string_view text) const;
  template <typename T>
  void read_as(const CsvTable& table, const CsvRow& row, T* out) const;
  [[noreturn]] void fail_missing(const CsvTable& table, const CsvRow& row, size_t column) const;
  [[noreturn]] void fail_value(const CsvTable& table,
                               const CsvRow& row,
                               size_t column,
                               CsvNumber problem) const;
  [[noreturn]] void fail_range(const CsvTable& table, const CsvRow& row, size_t column) const;

  const CsvFieldOptions& options_;
  const std::vector<std::string>& marks_;
  std::vector<size_t> columns_;
};

// Errors   csv.bad_field for options that contradict each other
void check_csv_field(const CsvFieldOptions& options);

}  // namespace tenon
