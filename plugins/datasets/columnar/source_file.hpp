// SPDX-License-Identifier: Apache-2.0
//
// What is in a file of any of the formats: its columns, its row groups, and batches of arrays of
// one. A row group is that of Parquet, a stripe of ORC, a record batch of Feather, and a CSV file
// as a whole. Invariants: a file is open only while something of it is read; what is read is of the
// very file that was listed, or an error. Threads: opened by one; any may read at once.
#pragma once

#include <arrow/csv/options.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "column.hpp"
#include "file_list.hpp"
#include "row_filter.hpp"

namespace tenon {

struct FileOptions {
  FileFormat format = FileFormat::kAuto;
  char separator = ',';
  bool header = true;
  std::vector<std::string> missing_marks;
  // Of a file without types: what columns are to be.
  std::unordered_map<std::string, std::shared_ptr<arrow::DataType>> text_types;
};

struct RowGroup {
  int number = 0;
  int64_t rows = 0;
};

class GroupReader;

class SourceFile {
 public:
  virtual ~SourceFile() = default;

  const std::string& name() const { return file_.name; }
  const DataFile& file() const { return file_; }
  // Columns, and the folders KEY=VALUE in its path: i64 where the value is a number, text where it
  // is not.
  const std::shared_ptr<arrow::Schema>& schema() const { return schema_; }
  // Those of which a row may fit the filter.
  const std::vector<RowGroup>& groups() const { return groups_; }
  int64_t num_rows() const;

  // The rows of a group from `first_row` on, these columns of them, in batches of at most about
  // `batch_rows`.
  //
  // Errors   columnar.vanished, columnar.changed, columnar.read; the reader columnar.read
  std::unique_ptr<GroupReader> read(int group,
                                    const std::vector<std::string>& columns,
                                    int64_t first_row,
                                    int64_t batch_rows) const;
  // Whether read() sets out to fetch a group's bytes, on a thread of Arrow's, and does not wait.
  virtual bool fetches_ahead() const { return false; }

 protected:
  explicit SourceFile(DataFile file) : file_(std::move(file)) {}
  void add_partitions();
  virtual std::shared_ptr<arrow::RecordBatchReader> open_group(
      int group, const std::vector<std::string>& columns, int64_t batch_rows) const = 0;

  DataFile file_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<RowGroup> groups_;
  std::set<std::string> is_own_column_;  // not of a folder

  friend std::shared_ptr<const SourceFile> open_file(const DataFile& file,
                                                     const FileOptions& options,
                                                     const RowFilter& filter);
};

class GroupReader {
 public:
  GroupReader(const SourceFile& file,
              int group,
              std::shared_ptr<arrow::RecordBatchReader> reader,
              std::vector<std::string> columns,
              int64_t first_row);

  // The next rows with their place, or null at the group's end.
  //
  // Errors   columnar.read, naming file and row group
  std::shared_ptr<arrow::RecordBatch> next(RowPlace& place);

 private:
  const SourceFile& file_;
  int group_;
  std::shared_ptr<arrow::RecordBatchReader> reader_;
  std::vector<std::string> columns_;
  int64_t first_row_;
  int64_t at_ = 0;
};

// Reads what the file says of itself: columns and row groups.
//
// Errors   columnar.read for a file that is none of its format, or is cut short;
//          columnar.unknown_format; columnar.vanished, columnar.changed; what `filter` throws
std::shared_ptr<const SourceFile> open_file(const DataFile& file,
                                            const FileOptions& options,
                                            const RowFilter& filter);

}  // namespace tenon
