// SPDX-License-Identifier: Apache-2.0
#include "filter_value.hpp"

#include <cmath>

#include "../csv/csv_parser.hpp"
#include "column_arrays.hpp"
#include "leaf_conversion.hpp"

namespace tenon {
namespace {

std::optional<int> order_of(const auto& x, const auto& y) {
  return x < y    ? std::optional(-1)
         : y < x  ? std::optional(1)
         : x == y ? std::optional(0)
                  : std::nullopt;
}

// Compares exactly, without rounding the integer; none for NaN.
std::optional<int> compare_exactly(__int128 a, double b) {
  if (std::isnan(b)) {
    return std::nullopt;
  }
  constexpr double kEnd = 0x1p126;
  if (std::fabs(b) >= kEnd) {
    return b > 0 ? -1 : 1;
  }
  const double whole = std::floor(b);
  const std::optional<int> order = order_of(a, static_cast<__int128>(whole));
  return *order == 0 && b > whole ? -1 : order;
}

// A number as columns read it: decimal, or a hexadecimal integer.
std::optional<FilterValue> number_in(std::string_view text) {
  text = trim_csv_blanks(text);
  if (const std::optional<__int128> whole = integer_in(text)) {
    return FilterValue(*whole);
  }
  int64_t hexadecimal = 0;
  if (parse_csv_number(text, hexadecimal) == CsvNumber::kGood) {
    return FilterValue(__int128{hexadecimal});
  }
  if (const std::optional<int64_t> bits = id_in(text)) {
    return FilterValue(static_cast<__int128>(static_cast<uint64_t>(*bits)));
  }
  double number = 0;
  return parse_csv_number(text, number) == CsvNumber::kGood ? std::optional(FilterValue(number))
                                                            : std::nullopt;
}

}  // namespace

std::optional<int> compare(const FilterValue& a, const FilterValue& b) {
  if (std::holds_alternative<std::string>(a) || std::holds_alternative<std::string>(b)) {
    return a.index() == b.index() ? order_of(std::get<std::string>(a), std::get<std::string>(b))
                                  : std::nullopt;
  }
  const auto* const whole_a = std::get_if<__int128>(&a);
  const auto* const whole_b = std::get_if<__int128>(&b);
  if (whole_a != nullptr && whole_b != nullptr) {
    return order_of(*whole_a, *whole_b);
  }
  if (whole_a != nullptr) {
    return compare_exactly(*whole_a, std::get<double>(b));
  }
  if (whole_b != nullptr) {
    const std::optional<int> order = compare_exactly(*whole_b, std::get<double>(a));
    return order ? std::optional(-*order) : std::nullopt;
  }
  return order_of(std::get<double>(a), std::get<double>(b));
}

bool fits(const std::optional<FilterValue>& value, Comparison op, const FilterValue& wanted) {
  const std::optional<int> order = value ? compare(*value, wanted) : std::nullopt;
  if (!order) {
    return false;
  }
  switch (op) {
    case Comparison::kEqual:
      return *order == 0;
    case Comparison::kNotEqual:
      return *order != 0;
    case Comparison::kLess:
      return *order < 0;
    case Comparison::kLessEqual:
      return *order <= 0;
    case Comparison::kGreater:
      return *order > 0;
    case Comparison::kGreaterEqual:
      return *order >= 0;
  }
  return true;
}

bool is_text(const FilterValue& value) {
  return std::holds_alternative<std::string>(value);
}

std::optional<__int128> integer_in(std::string_view text) {
  constexpr size_t kMostDigits = 38;
  const bool is_negative = !text.empty() && text.front() == '-';
  const bool has_sign = is_negative || (!text.empty() && text.front() == '+');
  text.remove_prefix(has_sign ? 1 : 0);
  if (text.empty() || text.size() > kMostDigits) {
    return std::nullopt;
  }
  __int128 value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') {
      return std::nullopt;
    }
    value = value * 10 + (c - '0');
  }
  return is_negative ? -value : value;
}

std::optional<FilterValue> value_in(std::string_view text, ValueKind kind) {
  switch (kind) {
    case ValueKind::kText:
      return FilterValue(std::string(text));
    case ValueKind::kInstant: {
      const std::optional<__int128> instant = instant_in(text);
      return instant ? std::optional(FilterValue(*instant)) : std::nullopt;
    }
    case ValueKind::kBool: {
      const std::optional<int64_t> truth = bool_in(text);
      return truth ? std::optional(FilterValue(__int128{*truth})) : number_in(text);
    }
    default:
      return is_number(kind) ? number_in(text) : std::nullopt;
  }
}

bool is_null_text(std::string_view text, ValueKind kind) {
  return kind != ValueKind::kText && is_null_mark(trim_csv_blanks(text));
}

FilterValue value_at(const arrow::Array& array, const ValueMeaning& meaning, int64_t i) {
  using arrow::Type;
  switch (array.type_id()) {
    case Type::BOOL:
      return __int128{static_cast<const arrow::BooleanArray&>(array).Value(i) ? 1 : 0};
    case Type::HALF_FLOAT:
    case Type::FLOAT:
    case Type::DOUBLE: {
      double value = 0;
      with_reals(array, [&](const auto& real_at) { value = real_at(i); });
      return value;
    }
    case Type::DECIMAL32:
    case Type::DECIMAL64:
    case Type::DECIMAL128:
    case Type::DECIMAL256: {
      const std::optional<__int128> whole = decimal_as_integer(array, i);
      return whole ? FilterValue(*whole) : FilterValue(decimal_as_double(array, i));
    }
    default: {
      __int128 value = 0;
      with_integers(array, [&](const auto* values) { value = values[i]; });
      return value * nanoseconds_of(meaning.unit);
    }
  }
}

}  // namespace tenon
