// SPDX-License-Identifier: Apache-2.0
//
// Columns of a batch: each combines the fields "X", or "X.values", "X.offsets" and "X.weights"
// (dataset.h defines the convention). Names and checks columns; computes nothing.
// Threads: any; pure functions.

#pragma once

#include "host/tensor/batch.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

struct ColumnType {
  uint32_t dtype = 0;          // of the values
  std::size_t num_levels = 0;  // of offsets
  bool is_text = false;        // the innermost level splits bytes into strings
  bool has_weights = false;
  int64_t width = 0;  // without levels: 0 for values [B], n for [B, n], -1 for [B, any]

  bool operator==(const ColumnType&) const = default;
};

// "i64, one per sample", "f32, 4 per sample", "text, lists with weights".
std::string describe(const ColumnType& type);

// Indices of the fields that a column consists of.
struct ColumnFields {
  ColumnType type;
  std::size_t values = 0;
  std::vector<std::size_t> offsets;
  std::optional<std::size_t> weights;
};

// Returns the column `name`, or nothing if the schema has no such fields.
//
// Errors   data.bad_column if the fields do not form a column: offsets of another type or axes,
//          values without offsets
std::optional<ColumnFields> find_column(const std::vector<FieldInfo>& schema,
                                        std::string_view name);

// Returns the names of all columns, in the order of the schema.
std::vector<std::string> column_names(const std::vector<FieldInfo>& schema);

// Returns the fields that a column of this type consists of: values, then offsets, then weights.
std::vector<FieldInfo> fields_of_column(const std::string& name, const ColumnType& type);

struct Column {
  at::Tensor values;
  std::vector<at::Tensor> offsets;
  at::Tensor weights;  // undefined if there are none

  // Returns the tensors in the order of fields_of_column().
  std::vector<at::Tensor> tensors() const;
};

Column column_of(const Batch& batch, const ColumnFields& fields);

// Returns the defect of a column of `samples` samples, or nothing: a wrong dtype or shape, offsets
// that decrease (with the sample) or do not end with the number of entries, or a wrong number of
// weights.
std::optional<std::string> why_not_column(const Column& column,
                                          const ColumnType& type,
                                          int64_t samples);

}  // namespace tenon
