// SPDX-License-Identifier: Apache-2.0
//
// Values that a filter compares: numbers, times and texts. Comparisons are exact: 64-bit integers
// are never compared as f64, and times are compared in nanoseconds.
// Threads: pure functions, from any thread.
#pragma once

#include <arrow/array.h>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "value_meaning.hpp"

namespace tenon {

// A number or string in a recipe, or a value of a file. Times are nanoseconds.
using FilterValue = std::variant<__int128, double, std::string>;

enum class Comparison { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual };

// -1, 0 or 1; none if the values cannot be compared, as with NaN.
std::optional<int> compare(const FilterValue& a, const FilterValue& b);
// False if `value` is none, or if the values cannot be compared.
bool fits(const std::optional<FilterValue>& value, Comparison op, const FilterValue& wanted);

bool is_text(const FilterValue& value);
// Decimal integer of at most 38 digits.
std::optional<__int128> integer_in(std::string_view text);
// A text as a value of this kind: a text, a number or a time; none if it is not one.
std::optional<FilterValue> value_in(std::string_view text, ValueKind kind);
// True if the text of a file without types means a null in a column of this kind.
bool is_null_text(std::string_view text, ValueKind kind);
// The value of an element that is not null, as an integer, a number or a time.
FilterValue value_at(const arrow::Array& array, const ValueMeaning& meaning, int64_t i);

}  // namespace tenon
