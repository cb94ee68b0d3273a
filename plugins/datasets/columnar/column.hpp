// SPDX-License-Identifier: Apache-2.0
//
// One column of a batch: reads its rows from record batches and writes them as fields of the batch.
// column_form.hpp determines its sources, type and shape; shard_reader.hpp chooses rows and file.
// Invariants: the first file determines type and shape. A file that would give another type or
// shape is rejected before any of its data is read.
// Threads: resolved by one thread; const functions from any thread.
#pragma once

#include <tenon/cpp/dataset.hpp>

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "column_arrays.hpp"
#include "column_form.hpp"
#include "column_options.hpp"

namespace tenon {

// Origin of an array's rows, for error messages.
struct RowPlace {
  std::string file;
  int group = 0;          // row group, stripe or record batch
  int64_t first_row = 0;  // row 0 of the array, within the group

  // "FILE: row group 2, row 17: "; rows count from 0 within the group.
  std::string of_row(int64_t row) const;
};

// Some rows of a column, in batch form. `data` points into `memory`, or into an array that `memory`
// keeps alive.
struct ColumnRows {
  std::shared_ptr<const void> memory;
  const char* data = nullptr;
  std::vector<int64_t> offsets;  // per level, outermost first; empty: one value, or n, per row
  std::vector<int64_t> inner_offsets;
  std::shared_ptr<const void> weights_memory;
  const float* weights = nullptr;
};

// Rows [begin, end) of `rows`.
struct RowSlice {
  const ColumnRows* rows;
  int64_t begin;
  int64_t end;
};

class Column {
 public:
  // Errors   columnar.bad_column for options that contradict each other
  explicit Column(ColumnOptions options);

  const std::string& name() const { return options_.name; }

  // Resolves sources, type and shape from the schema of `file`.
  //
  // Errors   columnar.no_column, columnar.wrong_type, naming file, column and type
  void resolve(const arrow::Schema& schema, const std::string& file);
  // Checks that another file gives the same sources, type and shape.
  //
  // Errors   as resolve
  void check(const arrow::Schema& schema, const std::string& file) const;

  // The source columns in the files. Requires resolve.
  const std::vector<std::string>& sources() const { return sources_; }
  // The type to parse a source column with if the format has no types (CSV); null for any type.
  std::shared_ptr<arrow::DataType> type_in_text() const;
  // Source column names as written in the options, for example "a..d" for a range.
  std::vector<std::string> named_sources() const { return tenon::named_sources(options_); }

  // Declares the column's fields and stores their indices.
  void declare(DatasetInfo& info);

  bool skips_rows() const { return options_.missing == Missing::kSkipRow; }
  // True if the row is skipped because of a null.
  bool skips(const arrow::RecordBatch& batch, int64_t row) const;

  // Converts rows of a record batch that has all sources().
  //
  // Errors   columnar.null, columnar.bad_offsets, naming file, row group, row and column
  ColumnRows read(const std::shared_ptr<arrow::RecordBatch>& batch,
                  const ElementRanges& rows,
                  const RowPlace& place) const;

  // Writes the rows of all slices to the column's fields.
  void write(const std::vector<RowSlice>& slices, int64_t num_rows, BatchWriter& writer) const;

 private:
  ColumnRows read_side_by_side(const arrow::RecordBatch& batch,
                               const ElementRanges& rows,
                               const RowPlace& place) const;
  ColumnRows read_filled(const std::shared_ptr<arrow::Array>& list,
                         const ElementRanges& rows,
                         const RowPlace& place) const;
  void check_length(const RowPlace& place, int64_t row, int64_t length) const;
  void read_values(const std::shared_ptr<arrow::Array>& leaf,
                   const ElementRanges& ranges,
                   const OnNull& on_null,
                   const OnBadOffset& on_bad_offset,
                   ColumnRows& out) const;
  void read_weights(const arrow::RecordBatch& batch,
                    const arrow::Array& list,
                    const ElementRanges& rows,
                    const RowPlace& place,
                    ColumnRows& out) const;
  void write_fixed(const std::vector<RowSlice>& slices,
                   int64_t num_rows,
                   BatchWriter& writer) const;
  void write_ragged(const std::vector<RowSlice>& slices,
                    int64_t num_rows,
                    BatchWriter& writer) const;
  [[noreturn]] void fail_null(const RowPlace& place, int64_t row, const std::string& column) const;
  [[noreturn]] void fail_offsets(const RowPlace& place,
                                 int64_t row,
                                 const std::string& column,
                                 const std::string& what) const;

  ColumnOptions options_;
  std::vector<std::string> sources_;
  ColumnForm form_;
  std::string resolved_by_;  // the first file
  uint32_t field_ = 0;       // index of the values; the other fields follow
};

}  // namespace tenon
