// SPDX-License-Identifier: Apache-2.0
//
// Source columns, type and shape of a batch column, resolved from its options and a file's schema.
// Reads no data.
// Threads: pure functions, from any thread.
#pragma once

#include <arrow/type.h>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "column_options.hpp"

namespace tenon {

struct ColumnForm {
  int levels = 0;       // levels of offsets in a batch; text adds one
  int list_levels = 0;  // levels of lists in the files
  int64_t width = 0;    // of [B, width]; 0: [B]
  ColumnType type = ColumnType::kAuto;
  bool has_weights = false;
  bool is_map = false;

  bool operator==(const ColumnForm&) const = default;

  uint32_t dtype() const;
  size_t value_size() const;  // bytes
  std::string text() const;   // "ids in 1 level(s) of lists, with weights"
};

// Errors   columnar.bad_column for options that contradict each other
void check_column_options(const ColumnOptions& options);

// Source column names as written in the options, for example "a..d" for a range.
std::vector<std::string> named_sources(const ColumnOptions& options);

// Source column names with ranges expanded in file order; the weights column comes last.
//
// Errors   columnar.no_column, naming file and column
std::vector<std::string> sources_in(const ColumnOptions& options,
                                    const arrow::Schema& schema,
                                    const std::string& file);

// `sources` is a result of sources_in for the same schema.
//
// Errors   columnar.wrong_type, naming file, column and type
ColumnForm form_in(const ColumnOptions& options,
                   const std::vector<std::string>& sources,
                   const arrow::Schema& schema,
                   const std::string& file);

}  // namespace tenon
