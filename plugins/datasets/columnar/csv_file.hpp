// SPDX-License-Identifier: Apache-2.0
//
// A CSV file, compressed or not, as a source file with one row group. Its columns are untyped text:
// the options of the columns that read them give their types, else the whole file's values do.
//
// Not Arrow's CSV reader, which takes types from the first block and loses a byte of a quoted CRLF
// at the end of a block (apache/arrow#51368).
// Invariant: the bytes of a field are those of the file.
// Threads: opened by one thread; any number of threads read at once.
#pragma once

#include <arrow/io/interfaces.h>
#include <memory>
#include <string>
#include <vector>

#include "../csv/csv_parser.hpp"
#include "source_file.hpp"

namespace tenon {

class CsvFile final : public SourceFile {
 public:
  // Scans the whole file: counts its rows and infers the types that no option declares. A file
  // without a header line has no columns and no rows.
  //
  // Errors   columnar.read, naming the line; columnar.vanished, columnar.changed
  CsvFile(DataFile file, const FileOptions& options);

 protected:
  std::shared_ptr<arrow::RecordBatchReader> open_group(int group,
                                                       const std::vector<std::string>& columns,
                                                       int64_t batch_rows) const override;

 private:
  CsvDialect dialect_;
  bool has_header_;
  std::vector<std::string> missing_marks_;
};

}  // namespace tenon
