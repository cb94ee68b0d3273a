// SPDX-License-Identifier: Apache-2.0
//
// Columns of a batch: what the fields "X", or "X.values", "X.offsets" and "X.weights", say together
// (dataset.h has the convention). It names and checks; it computes nothing.
// Threads: functions of their arguments, from any.

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
  bool is_text = false;        // the innermost level cuts bytes into strings
  bool has_weights = false;
  int64_t width = 0;  // without levels: 0 for values [B], n for [B, n], -1 for [B, any]

  bool operator==(const ColumnType&) const = default;
};

// "i64, one per sample", "f32, 4 per sample", "text, lists with weights".
std::string describe(const ColumnType& type);

// Which fields a column consists of, by their index.
struct ColumnFields {
  ColumnType type;
  std::size_t values = 0;
  std::vector<std::size_t> offsets;
  std::optional<std::size_t> weights;
};

// The column of that name, or none if the schema has no such fields.
//
// Errors   data.bad_column if it has some that make no column: offsets of another type or axes,
//          values without offsets
std::optional<ColumnFields> find_column(const std::vector<FieldInfo>& schema,
                                        std::string_view name);

// Names of all columns, in the order of the schema.
std::vector<std::string> column_names(const std::vector<FieldInfo>& schema);

// The fields that a column of this type consists of: values, then offsets, then weights.
std::vector<FieldInfo> fields_of_column(const std::string& name, const ColumnType& type);

struct Column {
  at::Tensor values;
  std::vector<at::Tensor> offsets;
  at::Tensor weights;  // undefined if there are none

  // In the order of fields_of_column().
  std::vector<at::Tensor> tensors() const;
};

Column column_of(const Batch& batch, const ColumnFields& fields);

// What is wrong with a column of `samples` samples, or none: a dtype, a shape, offsets that run
// backwards (naming the sample) or do not end with the entries, another number of weights.
std::optional<std::string> why_not_column(const Column& column,
                                          const ColumnType& type,
                                          int64_t samples);

}  // namespace tenon
