// SPDX-License-Identifier: Apache-2.0
//
// Converts the values of an array to the meaning that its column has in all files: units of times,
// whole floating-point numbers and decimals as ids, text as numbers. Values that cannot be
// converted exactly are recorded, and are errors only if their rows are used.
// Invariant: a value is either exact, or rounded to the nearest number of a declared f32 or f64.
// Threads: pure functions, from any thread.
#pragma once

#include <arrow/array.h>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "column_arrays.hpp"
#include "column_options.hpp"
#include "value_meaning.hpp"

namespace tenon {

// What the values of a column become.
struct LeafTarget {
  ColumnType type = ColumnType::kAuto;  // kIds, kF32, kF64 or kText
  bool is_hashed = false;
  ValueMeaning meaning;         // of the column in all files
  bool nan_is_missing = false;  // NaN becomes null
};

// Elements that cannot be converted, with the reason: "is 0.5, which is not an integer".
using BadElements = std::map<int64_t, std::string>;

// `array`, whose innermost values have the meaning `from`, with converted values. Returns `array`
// itself if no conversion is needed. `bad` receives elements of the innermost array.
std::shared_ptr<arrow::Array> converted(const std::shared_ptr<arrow::Array>& array,
                                        const ValueMeaning& from,
                                        const LeafTarget& target,
                                        BadElements& bad);

// A plain array with the same elements: lists for list views, strings for string views, the storage
// of extension types, a dictionary of plain words for dictionaries and run-end encoded arrays.
// Other arrays are returned as they are.
std::shared_ptr<arrow::Array> plain(const std::shared_ptr<arrow::Array>& array);

// The values of a map are converted to f32. With `nan_is_missing`, NaN becomes null.
std::shared_ptr<arrow::Array> with_plain_weights(const std::shared_ptr<arrow::Array>& map,
                                                 bool nan_is_missing,
                                                 BadElements& bad);

// The decimal number nearest to an element, and the element as an integer; none if it has a
// fraction.
double decimal_as_double(const arrow::Array& decimals, int64_t i);
std::optional<__int128> decimal_as_integer(const arrow::Array& decimals, int64_t i);

}  // namespace tenon
