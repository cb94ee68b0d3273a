// SPDX-License-Identifier: Apache-2.0
//
// Options of the dataset `columnar`. Those of columns and conditions are in column_options.hpp and
// row_filter.hpp, those of windows in window_walk.hpp.
#pragma once

#include <tenon/cpp/options.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "column_options.hpp"
#include "file_list.hpp"
#include "row_filter.hpp"
#include "window_deal.hpp"
#include "window_walk.hpp"

namespace tenon {

enum class Check { kAll, kFirst };
enum class EmptyWindow { kError, kSkip, kWait };

struct ShareOptions : RowShare {
  static void bind(OptionBinder<ShareOptions>& binder);
};

struct CsvOptions {
  std::string separator = ",";
  bool header = true;
  std::vector<std::string> missing_marks;

  static void bind(OptionBinder<CsvOptions>& binder);
};

struct ColumnarOptions {
  std::vector<std::string> paths;
  FileFormat format = FileFormat::kAuto;
  std::vector<ColumnOptions> columns;
  std::vector<Condition> where;
  WindowOptions windows;
  EmptyWindow empty_windows = EmptyWindow::kError;
  ShareOptions share;
  int64_t shards = 1;
  DealBy deal_by = DealBy::kRows;
  int64_t shuffle_groups = 0;
  int64_t read_rows = 131072;  // Arrow's default for scans
  Check check = Check::kAll;
  CsvOptions csv;

  static void bind(OptionBinder<ColumnarOptions>& binder);
  // Errors   columnar.bad_column, columnar.bad_share, columnar.bad_separator
  void check_values() const;
};

}  // namespace tenon
