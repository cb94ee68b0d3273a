// SPDX-License-Identifier: Apache-2.0
//
// Content of a file in any supported format: its columns, its row groups, and the record batches of
// a row group. "Row group" means a Parquet row group, an ORC stripe, a Feather record batch, or a
// whole CSV file.
// Invariants: a file is open only while it is being read. Reading a file that changed since it was
// listed is an error.
// Threads: opened by one thread; any number of threads read at once.
#pragma once

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "column.hpp"
#include "file_list.hpp"
#include "row_filter.hpp"

namespace tenon {

struct FileOptions {
  FileFormat format = FileFormat::kAuto;
  std::string separator = ",";
  bool header = true;
  std::vector<std::string> missing_marks;
  std::vector<std::string> sources;  // names that columns and conditions read
  // For files without types (CSV): the columns whose types are inferred.
  std::function<std::set<std::string>(const arrow::Schema&)> inferred;
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
  // Columns of the file, the fields of its structs by their paths ("user.id"), and the KEY=VALUE
  // folders of its path, which are untyped text. Names may be duplicates; see check_unique().
  const std::shared_ptr<arrow::Schema>& schema() const { return schema_; }
  // Row groups that may contain a matching row.
  const std::vector<RowGroup>& groups() const { return groups_; }
  int64_t num_rows() const;
  // False if the file has no rows at all, whatever the filter. Its types then mean nothing.
  bool has_rows() const { return has_rows_; }

  // Reads the given columns of a row group from `first_row` on, in batches of about `batch_rows`
  // rows at most.
  //
  // Errors   columnar.vanished, columnar.changed, columnar.read; from the returned reader:
  //          columnar.read
  std::unique_ptr<GroupReader> read(int group,
                                    const std::vector<std::string>& columns,
                                    int64_t first_row,
                                    int64_t batch_rows) const;
  // KEYs of folders KEY=VALUE in the path that the file has as columns, which are read instead.
  std::vector<std::string> hidden_folders() const;
  // Whether read() prefetches a group's bytes on an Arrow thread, without waiting.
  virtual bool fetches_ahead() const { return false; }

 protected:
  explicit SourceFile(DataFile file) : file_(std::move(file)) {}
  // Names the fields of structs by their paths.
  void add_struct_fields();
  // Names the fields of structs, or of lists of structs, that are all null in this file, so that it
  // does not have the fields. Their type is that of the structs: null, or lists of null.
  void add_null_fields(const std::vector<std::string>& names);
  void add_partitions();
  // Drops the row groups in which no row can match.
  virtual void select_groups(const RowFilter& /*filter*/) {}
  virtual std::shared_ptr<arrow::RecordBatchReader> open_group(
      int group, const std::vector<std::string>& columns, int64_t batch_rows) const = 0;

  DataFile file_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<RowGroup> groups_;
  bool has_rows_ = true;
  std::set<std::string> is_own_column_;                    // false for KEY=VALUE folders
  std::map<std::string, std::vector<std::string>> paths_;  // of struct fields, by their names

  friend std::shared_ptr<const SourceFile> open_file(const DataFile& file,
                                                     const FileOptions& options,
                                                     const RowFilter& filter);
  friend class GroupReader;
};

class GroupReader {
 public:
  GroupReader(const SourceFile& file,
              int group,
              std::shared_ptr<arrow::RecordBatchReader> reader,
              std::vector<std::string> columns,
              int64_t first_row);

  // The next rows and their origin, or null at the end of the group.
  //
  // Errors   columnar.read, naming file and row group
  std::shared_ptr<arrow::RecordBatch> next(RowOrigin& origin);

 private:
  std::shared_ptr<arrow::RecordBatch> with_derived_columns(
      std::shared_ptr<arrow::RecordBatch> batch) const;

  const SourceFile& file_;
  int group_;
  std::shared_ptr<arrow::RecordBatchReader> reader_;
  std::vector<std::string> columns_;
  int64_t first_row_;
  int64_t at_ = 0;
};

// Reads the file's metadata: columns and row groups. A CSV file is scanned whole.
//
// Errors   columnar.read for an invalid or truncated file; columnar.unknown_format;
//          columnar.vanished, columnar.changed; errors of `filter`
std::shared_ptr<const SourceFile> open_file(const DataFile& file,
                                            const FileOptions& options,
                                            const RowFilter& filter);

}  // namespace tenon
