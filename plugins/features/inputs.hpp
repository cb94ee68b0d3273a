// SPDX-License-Identifier: Apache-2.0
//
// Input checks shared by the feature plugins of this folder, with readable messages.
#ifndef TENON_PLUGINS_FEATURES_INPUTS_HPP
#define TENON_PLUGINS_FEATURES_INPUTS_HPP

#include <tenon/cpp/feature.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace tenon_features {

inline const tenon::ColumnType& one_input(const std::vector<tenon::ColumnType>& inputs) {
  TENON_CHECK(inputs.size() == 1, "requires one column, found ", inputs.size());
  return inputs.front();
}

inline bool is_number(const tenon::ColumnType& type) {
  switch (type.dtype) {
    case TENON_U8:
    case TENON_I8:
    case TENON_I16:
    case TENON_I32:
    case TENON_I64:
    case TENON_F32:
    case TENON_F64:
    case TENON_BOOL:
      return !type.is_text;
    default:
      return false;
  }
}

// Requires one column of i64.
inline const tenon::ColumnType& one_of_ids(const std::vector<tenon::ColumnType>& inputs) {
  const tenon::ColumnType& type = one_input(inputs);
  TENON_CHECK(type.dtype == TENON_I64,
              "requires a column of i64; hash text or cast other integers first");
  return type;
}

// Requires one column of numbers.
inline const tenon::ColumnType& one_of_numbers(const std::vector<tenon::ColumnType>& inputs) {
  const tenon::ColumnType& type = one_input(inputs);
  TENON_CHECK(is_number(type), "requires a column of integers, f32, f64 or bool");
  return type;
}

// Requires one column of lists of numbers, with one level.
inline const tenon::ColumnType& one_of_lists(const std::vector<tenon::ColumnType>& inputs) {
  const tenon::ColumnType& type = one_input(inputs);
  TENON_CHECK(is_number(type), "requires lists of numbers; hash text first");
  TENON_CHECK(type.num_levels == 1, "requires a column of lists with one level");
  return type;
}

// The same column with new values of dtype `dtype`.
inline tenon::ColumnType with_dtype(tenon::ColumnType type, uint32_t dtype) {
  type.dtype = dtype;
  return type;
}

// Calls body(const T*) with the values of a numeric column.
template <class Body>
void visit_numbers(const tenon::Column& column, Body&& body) {
  switch (column.values().dtype()) {
    case TENON_U8:
      return body(column.data<uint8_t>());
    case TENON_I8:
      return body(column.data<int8_t>());
    case TENON_I16:
      return body(column.data<int16_t>());
    case TENON_I32:
      return body(column.data<int32_t>());
    case TENON_I64:
      return body(column.data<int64_t>());
    case TENON_F32:
      return body(column.data<float>());
    case TENON_F64:
      return body(column.data<double>());
    case TENON_BOOL:
      return body(column.data<bool>());
    default:
      TENON_FAIL(TENON_INVALID, "bad_dtype", "the column is not numeric");
  }
}

// Index of the sample that contains value `i`. For messages.
inline int64_t sample_of(const tenon::Column& column, int64_t i) {
  for (size_t level = column.num_levels(); level-- > 0;) {
    const int64_t* const offsets = column.offsets(level);
    int64_t piece = 0;
    while (offsets[piece + 1] <= i) {
      ++piece;
    }
    i = piece;
  }
  const bool is_wide = column.num_levels() == 0 && column.values().ndim() == 2;
  return is_wide ? i / column.values().size(1) : i;
}

}  // namespace tenon_features

#endif
