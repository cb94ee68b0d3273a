// SPDX-License-Identifier: Apache-2.0
//
// One column of a batch: reads its rows from record batches and writes them as fields of the batch.
// column_form.hpp determines its sources, type and shape; shard_reader.hpp chooses rows and file.
// Invariants: the files that exist when the run starts determine type, unit and shape. Values of
// every file are converted to them exactly. A file that cannot be converted is rejected before any
// of its data is read, and a value that cannot be when its row is used.
// Threads: resolved by one thread; const functions from any thread.
#pragma once

#include <tenon/cpp/dataset.hpp>

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "column_arrays.hpp"
#include "column_form.hpp"
#include "column_options.hpp"
#include "id_signs.hpp"
#include "leaf_conversion.hpp"

namespace tenon {

// Origin of an array's rows, for error messages.
struct RowOrigin {
  std::string file;
  int group = 0;          // row group, stripe or record batch
  int64_t first_row = 0;  // row 0 of the array, within the group

  // "FILE: row group 2, row 17"; rows count from 0 within the group.
  std::string at_row(int64_t row) const;
  // The same, with ": ".
  std::string of_row(int64_t row) const { return at_row(row) + ": "; }
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

// A source column of a record batch, converted to the column's type and unit.
struct SourceArray {
  std::shared_ptr<arrow::Array> array;
  BadElements bad;          // of its innermost values
  BadElements bad_weights;  // of the values of a map
  // The ids as text; null if the file has numbers.
  std::shared_ptr<arrow::LargeBinaryArray> texts;
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

  // Adds a file to those that determine sources, type, unit and shape. The first file with values
  // counts most.
  //
  // Errors   columnar.no_column, columnar.wrong_type, naming files, column and types
  void add(const arrow::Schema& schema, const std::string& file);
  // True after add().
  bool has_files() const { return form_.has_value(); }
  // The file that determines type and shape. Requires has_files.
  const std::string& first_file() const { return form_->file; }
  // False if no file has told type and shape yet.
  bool is_resolved() const { return form_.has_value() && !form_->is_open(); }
  // Ends the sequence of add().
  //
  // Errors   columnar.no_column, columnar.wrong_type for a column that no file determines
  void resolve(Later later);
  // True if no file that was added has the column. Requires resolve.
  bool is_in_no_file() const { return tenon::is_in_no_file(*form_); }
  // Checks that the values of another file can be converted.
  //
  // Errors   as add
  void check(const arrow::Schema& schema, const std::string& file) const;

  // The source columns in the files. Requires resolve.
  const std::vector<std::string>& sources() const { return sources_; }
  // Sources without a declared type, for formats without types (CSV).
  std::set<std::string> inferred_sources(const arrow::Schema& schema) const {
    return tenon::inferred_sources(options_, schema);
  }
  // "ts in ms", for columns of times; else empty.
  std::string resolved_unit() const;

  // Declares the column's fields and stores their indices.
  void declare(DatasetInfo& info);

  bool skips_rows() const { return options_.missing == Missing::kSkipRow; }
  // The sources of a record batch. Sources that its file lacks are null.
  std::vector<SourceArray> arrays_of(const arrow::RecordBatch& batch) const;

  // True if the row is skipped because of a null.
  bool skips(const std::vector<SourceArray>& sources, int64_t row) const;

  // Converts rows of arrays_of() a record batch.
  //
  // Errors   columnar.null, columnar.bad_offsets, columnar.bad_value, columnar.wrong_length, naming
  //          file, row group, row and column
  ColumnRows read(const std::vector<SourceArray>& sources,
                  const ElementRanges& rows,
                  const RowOrigin& origin) const;

  // Writes the rows of all slices to the column's fields.
  void write(const std::vector<RowSlice>& slices, int64_t num_rows, BatchWriter& writer) const;

 private:
  ColumnRows read_side_by_side(const std::vector<SourceArray>& sources,
                               const ElementRanges& rows,
                               const RowOrigin& origin) const;
  ColumnRows read_filled(const SourceArray& source,
                         const ElementRanges& rows,
                         const RowOrigin& origin) const;
  void check_length(const RowOrigin& origin, int64_t row, int64_t length) const;
  void read_values(const std::shared_ptr<arrow::Array>& leaf,
                   const ElementRanges& ranges,
                   const OnNull& on_null,
                   const OnBadOffset& on_bad_offset,
                   ColumnRows& out) const;
  void read_weights(const std::vector<SourceArray>& sources,
                    const ElementRanges& rows,
                    const RowOrigin& origin,
                    ColumnRows& out) const;
  void write_fixed(const std::vector<RowSlice>& slices,
                   int64_t num_rows,
                   BatchWriter& writer) const;
  void write_ragged(const std::vector<RowSlice>& slices,
                    int64_t num_rows,
                    BatchWriter& writer) const;
  // Requires the sources of earlier files.
  void check_sources(const std::vector<std::string>& sources, const std::string& file) const;
  // Requires that no element of the ranges is bad. `row_of` maps an element to its row.
  void check_values(const BadElements& bad,
                    const ElementRanges& ranges,
                    const RowOrigin& origin,
                    const std::string& column,
                    const std::function<int64_t(int64_t)>& row_of) const;
  // The same, for the innermost values of `source`, which are `leaf`. Also requires that the column
  // does not mix negative ids with ids of 2^63 and above.
  void check_leaf(const SourceArray& source,
                  const arrow::Array& leaf,
                  const ElementRanges& ranges,
                  const RowOrigin& origin,
                  const std::string& column,
                  const std::function<int64_t(int64_t)>& row_of) const;
  [[noreturn]] void fail_null(const RowOrigin& origin,
                              int64_t row,
                              const std::string& column) const;
  [[noreturn]] void fail_offsets(const RowOrigin& origin,
                                 int64_t row,
                                 const std::string& column,
                                 const std::string& what) const;

  ColumnOptions options_;
  std::vector<std::string> sources_;
  std::optional<ColumnForm> form_;
  uint32_t field_ = 0;  // index of the values; the other fields follow
  // Copies of the column share what they have read.
  std::shared_ptr<IdSigns> signs_ = std::make_shared<IdSigns>();
};

// "ts in ms, day in days": the units of all columns of times.
std::string units_of(const std::vector<Column>& columns);
// Requires that the columns have the units of a saved run. An empty text is of a run without times,
// or of an earlier release.
//
// Errors   columnar.other_units
void check_units(const std::vector<Column>& columns, const std::string& saved);

}  // namespace tenon
