// SPDX-License-Identifier: Apache-2.0
//
// Source columns, type and shape of a batch column, resolved from its options and a file's schema.
// Reads no data.
// Threads: pure functions, from any thread.
#pragma once

#include <arrow/type.h>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "column_options.hpp"
#include "value_meaning.hpp"

namespace tenon {

struct ColumnForm {
  int levels = 0;       // levels of offsets in a batch; text adds one
  int list_levels = 0;  // levels of lists in the files
  int64_t width = 0;    // of [B, width]; 0: [B]
  ColumnType type = ColumnType::kAuto;
  bool has_weights = false;
  bool is_map = false;
  // No file so far has told the type (kAuto), or the levels of lists.
  bool is_type_open = false;
  bool are_levels_open = false;
  ValueMeaning meaning;                                 // of the values
  std::vector<std::shared_ptr<arrow::DataType>> types;  // per source; null if the file lacks it
  std::string file;

  bool is_open() const { return is_type_open || are_levels_open; }
  // Whether a batch column of both has the same shape.
  bool has_shape_of(const ColumnForm& other) const;
  uint32_t dtype() const;
  size_t value_size() const;  // bytes
  std::string text() const;   // "ids in 1 level(s) of lists, with weights"
};

// Errors   columnar.bad_column for options that contradict each other
void check_column_options(const ColumnOptions& options);

// Source column names as written in the options, for example "a..d" for a range.
std::vector<std::string> named_sources(const ColumnOptions& options);

// Requires that no two columns have the name, or that of a struct in its path.
//
// Errors   columnar.no_column, naming file and column
void check_unique(const arrow::Schema& schema, const std::string& file, const std::string& name);

// Source column names with ranges expanded in file order; the weights column comes last. Columns
// that the file lacks are included if the options allow it.
//
// Errors   columnar.no_column, naming file and column
std::vector<std::string> sources_in(const ColumnOptions& options,
                                    const arrow::Schema& schema,
                                    const std::string& file);

// Columns of a file without types whose values no option declares, so that they are inferred.
std::set<std::string> inferred_sources(const ColumnOptions& options, const arrow::Schema& schema);

// `sources` is a result of sources_in for the same schema. `known` is the form in earlier files,
// for messages; null for the first file.
//
// Errors   columnar.wrong_type, naming file, column and type
ColumnForm form_in(const ColumnOptions& options,
                   const std::vector<std::string>& sources,
                   const arrow::Schema& schema,
                   const std::string& file,
                   const ColumnForm* known);

// Form of a column in `known`, a form of earlier files, and in `here`, that of another file.
//
// Errors   columnar.wrong_type, naming both files, the column and both types
ColumnForm joined(const ColumnOptions& options, const ColumnForm& known, const ColumnForm& here);

// True if no file so far has the column.
bool is_in_no_file(const ColumnForm& form);

// Whether further files will come, which may have a column that no file has.
enum class Later { kNone, kFiles };

// The form that reads every file, if no file determines more than `form`.
//
// Errors   columnar.no_column, columnar.wrong_type
ColumnForm completed(const ColumnOptions& options, ColumnForm form, Later later);

}  // namespace tenon
