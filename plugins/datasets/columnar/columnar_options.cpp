// SPDX-License-Identifier: Apache-2.0
#include "columnar_options.hpp"

#include <tenon/cpp/guard.hpp>

#include <set>
#include <string>

namespace tenon {

void ShareOptions::bind(OptionBinder<ShareOptions>& binder) {
  binder.field("from", &ShareOptions::from).min(0).doc("first part to read");
  binder.field("to", &ShareOptions::to).min(1).doc("end of the parts to read (exclusive)");
  binder.field("of", &ShareOptions::of).min(1).doc("number of parts, with nearly equal row counts");
}

void CsvOptions::bind(OptionBinder<CsvOptions>& binder) {
  binder.field("separator", &CsvOptions::separator)
      .non_empty()
      .doc("column separator, for example \",\", \"\\t\" or \"::\"");
  binder.field("header", &CsvOptions::header)
      .doc(
          "whether the first line has column names; if false, columns are named \"f0\", \"f1\", "
          "...");
  binder.field("missing_marks", &CsvOptions::missing_marks)
      .doc(
          "texts that are read as null, in addition to an empty text without quotes; numbers "
          "also read NA, NULL, nan and similar as null");
}

void ColumnarOptions::check_values() const {
  std::set<std::string> names;
  for (const ColumnOptions& column : columns) {
    if (!names.insert(column.name).second) {
      TENON_FAIL(
          TENON_INVALID, "columnar.bad_column", "two columns are named ", json_string(column.name));
    }
  }
  if (share.from >= share.to || share.to > share.of) {
    TENON_FAIL(TENON_INVALID,
               "columnar.bad_share",
               "`share` has from ",
               share.from,
               ", to ",
               share.to,
               " and of ",
               share.of,
               "; expected from < to <= of");
  }
  if (csv.separator.find_first_of("\"\r\n") != std::string::npos) {
    TENON_FAIL(TENON_INVALID,
               "columnar.bad_separator",
               "`separator` is ",
               json_string(csv.separator),
               "; expected a text without quotes and line breaks");
  }
}

void ColumnarOptions::bind(OptionBinder<ColumnarOptions>& binder) {
  binder.field("paths", &ColumnarOptions::paths)
      .required()
      .non_empty()
      .min_items(1)
      .path()
      .doc("files, folders, or patterns of names with *, ? and [...]; also s3://BUCKET/...");
  binder
      .choice("format",
              &ColumnarOptions::format,
              {{"auto", FileFormat::kAuto},
               {"parquet", FileFormat::kParquet},
               {"orc", FileFormat::kOrc},
               {"feather", FileFormat::kFeather},
               {"csv", FileFormat::kCsv}})
      .doc("file format; auto: by file extension");
  binder.field("columns", &ColumnarOptions::columns)
      .required()
      .min_items(1)
      .doc("columns of a batch and their source columns in the files");
  binder.field("where", &ColumnarOptions::where)
      .doc(
          "conditions that every row must meet; row groups are skipped if their statistics "
          "exclude all rows");
  binder.field("windows", &ColumnarOptions::windows).doc("how the data is split into windows");
  binder
      .choice("empty_windows",
              &ColumnarOptions::empty_windows,
              {{"error", EmptyWindow::kError},
               {"skip", EmptyWindow::kSkip},
               {"wait", EmptyWindow::kWait}})
      .doc("windows without rows: fail, skip the window, or wait for rows");
  binder.field("share", &ColumnarOptions::share)
      .doc("part of each window to read; another dataset can read the rest");
  binder.field("shards", &ColumnarOptions::shards)
      .min(1)
      .max(65536)
      .doc(
          "pieces of a window, read in parallel by loader threads and ranks; at least one per "
          "rank");
  binder
      .choice(
          "deal_by",
          &ColumnarOptions::deal_by,
          {{"rows", DealBy::kRows}, {"row_groups", DealBy::kRowGroups}, {"files", DealBy::kFiles}})
      .doc(
          "how rows are assigned to shards: equal row counts, or whole row groups or files "
          "round-robin");
  binder.field("shuffle_groups", &ColumnarOptions::shuffle_groups)
      .min(0)
      .max(65536)
      .doc("row groups that a shard buffers and shuffles together; 0: no shuffling");
  binder.field("read_rows", &ColumnarOptions::read_rows)
      .min(1)
      .max(1 << 24)
      .doc("rows decoded at a time from a row group");
  binder.choice("check", &ColumnarOptions::check, {{"all", Check::kAll}, {"first", Check::kFirst}})
      .doc(
          "files whose columns are checked before the run: all existing files, or the first "
          "only");
  binder.field("csv", &ColumnarOptions::csv).doc("CSV format options");
}

}  // namespace tenon
