// SPDX-License-Identifier: Apache-2.0
#include "value_meaning.hpp"

#include <algorithm>
#include <array>
#include <arrow/extension_type.h>
#include <arrow/util/key_value_metadata.h>
#include <arrow/util/value_parsing.h>
#include <charconv>

#include "../csv/csv_parser.hpp"
#include "column_arrays.hpp"

namespace tenon {
namespace {

using arrow::Type;

constexpr const char* kUntypedKey = "tenon.untyped";

TimeUnit unit_of(arrow::TimeUnit::type unit) {
  switch (unit) {
    case arrow::TimeUnit::SECOND:
      return TimeUnit::kSecond;
    case arrow::TimeUnit::MILLI:
      return TimeUnit::kMilli;
    case arrow::TimeUnit::MICRO:
      return TimeUnit::kMicro;
    default:
      return TimeUnit::kNano;
  }
}

// The kind and unit of an inferred meaning as the value of a field's metadata, and back.
std::string metadata_of(const ValueMeaning& meaning) {
  return {static_cast<char>('a' + static_cast<int>(meaning.kind)),
          static_cast<char>('a' + static_cast<int>(meaning.unit))};
}

}  // namespace

ValueMeaning meaning_of(const arrow::DataType& leaf) {
  switch (leaf.id()) {
    case Type::NA:
      return {};
    case Type::BOOL:
      return {.kind = ValueKind::kBool};
    case Type::INT8:
    case Type::INT16:
    case Type::INT32:
    case Type::INT64:
    case Type::UINT8:
    case Type::UINT16:
    case Type::UINT32:
      return {.kind = ValueKind::kInteger};
    case Type::UINT64:
      return {.kind = ValueKind::kInteger, .is_unsigned = true};
    case Type::HALF_FLOAT:
    case Type::FLOAT:
    case Type::DOUBLE:
      return {.kind = ValueKind::kReal};
    case Type::DECIMAL32:
    case Type::DECIMAL64:
    case Type::DECIMAL128:
    case Type::DECIMAL256:
      return {.kind = ValueKind::kDecimal,
              .scale = static_cast<const arrow::DecimalType&>(leaf).scale()};
    case Type::DATE32:
      return {.kind = ValueKind::kInstant, .unit = TimeUnit::kDay};
    case Type::DATE64:
      return {.kind = ValueKind::kInstant, .unit = TimeUnit::kMilli};
    case Type::TIMESTAMP: {
      const auto& type = static_cast<const arrow::TimestampType&>(leaf);
      return {.kind = ValueKind::kInstant,
              .unit = unit_of(type.unit()),
              .zone = type.timezone().empty() ? TimeZone::kNone : TimeZone::kUtc};
    }
    case Type::TIME32:
    case Type::TIME64:
      return {.kind = ValueKind::kTimeOfDay,
              .unit = unit_of(static_cast<const arrow::TimeType&>(leaf).unit())};
    case Type::DURATION:
      return {.kind = ValueKind::kDuration,
              .unit = unit_of(static_cast<const arrow::DurationType&>(leaf).unit())};
    case Type::STRING:
    case Type::BINARY:
    case Type::LARGE_STRING:
    case Type::LARGE_BINARY:
    case Type::STRING_VIEW:
    case Type::BINARY_VIEW:
    case Type::FIXED_SIZE_BINARY:
      return {.kind = ValueKind::kText};
    case Type::DICTIONARY:
      return meaning_of(*static_cast<const arrow::DictionaryType&>(leaf).value_type());
    case Type::RUN_END_ENCODED:
      return meaning_of(*static_cast<const arrow::RunEndEncodedType&>(leaf).value_type());
    case Type::EXTENSION:
      return meaning_of(*static_cast<const arrow::ExtensionType&>(leaf).storage_type());
    default:
      return {.kind = ValueKind::kOther};
  }
}

int64_t nanoseconds_of(TimeUnit unit) {
  switch (unit) {
    case TimeUnit::kDay:
      return 86'400'000'000'000;
    case TimeUnit::kSecond:
      return 1'000'000'000;
    case TimeUnit::kMilli:
      return 1'000'000;
    case TimeUnit::kMicro:
      return 1'000;
    default:
      return 1;
  }
}

const char* name_of(TimeUnit unit) {
  constexpr std::array<const char*, 6> kNames = {"auto", "days", "s", "ms", "us", "ns"};
  return kNames.at(static_cast<size_t>(unit));
}

bool is_time(ValueKind kind) {
  return kind == ValueKind::kInstant || kind == ValueKind::kTimeOfDay ||
         kind == ValueKind::kDuration;
}

bool is_number(ValueKind kind) {
  return kind == ValueKind::kBool || kind == ValueKind::kInteger || kind == ValueKind::kReal ||
         kind == ValueKind::kDecimal;
}

std::shared_ptr<arrow::Field> untyped_field(const std::string& name, const ValueMeaning& inferred) {
  return arrow::field(name,
                      arrow::large_binary(),
                      arrow::key_value_metadata({kUntypedKey}, {metadata_of(inferred)}));
}

ValueMeaning meaning_of(const arrow::Field& field) {
  if (!field.HasMetadata() || !field.metadata()->Contains(kUntypedKey)) {
    return meaning_of(*shape_of(field.type()).leaf);
  }
  const std::string text = field.metadata()->Get(kUntypedKey).ValueOr("aa");
  return {.kind = static_cast<ValueKind>(text.at(0) - 'a'),
          .unit = static_cast<TimeUnit>(text.at(1) - 'a'),
          .is_untyped = true};
}

void TextMeaning::add(std::string_view text) {
  if (meaning_.kind == ValueKind::kText || text.empty() || is_null_mark(trim_csv_blanks(text))) {
    return;
  }
  ValueMeaning here{.kind = ValueKind::kText, .is_untyped = true};
  const std::string_view trimmed = trim_csv_blanks(text);
  double number = 0;
  if (meaning_.kind == ValueKind::kReal && parse_csv_number(trimmed, number) == CsvNumber::kGood) {
    return;
  }
  if (id_in(trimmed)) {
    here.kind = ValueKind::kInteger;
  } else if (parse_csv_number(trimmed, number) == CsvNumber::kGood) {
    here.kind = ValueKind::kReal;
  } else if (bool_in(trimmed)) {
    here.kind = ValueKind::kBool;
  } else if (const std::optional<__int128> instant = instant_in(text)) {
    constexpr size_t kDateSize = 10;  // "2026-11-20"
    here.kind = ValueKind::kInstant;
    here.unit = text.size() == kDateSize        ? TimeUnit::kDay
                : *instant % 1'000'000'000 == 0 ? TimeUnit::kSecond
                                                : TimeUnit::kNano;
  }
  meaning_ = joined(meaning_, here);
}

ValueMeaning joined(const ValueMeaning& a, const ValueMeaning& b) {
  ValueMeaning both = a.kind == ValueKind::kNull ? b : a;
  both.is_untyped = true;
  if (a.kind == b.kind || a.kind == ValueKind::kNull || b.kind == ValueKind::kNull) {
    both.unit = std::max(a.unit, b.unit);
    return both;
  }
  const auto is_plain = [](ValueKind kind) {
    return kind == ValueKind::kInteger || kind == ValueKind::kReal;
  };
  both.unit = TimeUnit::kAuto;
  both.kind = is_plain(a.kind) && is_plain(b.kind) ? ValueKind::kReal : ValueKind::kText;
  return both;
}

bool is_null_mark(std::string_view text) {
  // Arrow's defaults for CSV.
  constexpr std::array<std::string_view, 16> kMarks = {"#N/A",
                                                       "#N/A N/A",
                                                       "#NA",
                                                       "-1.#IND",
                                                       "-1.#QNAN",
                                                       "-NaN",
                                                       "-nan",
                                                       "1.#IND",
                                                       "1.#QNAN",
                                                       "N/A",
                                                       "NA",
                                                       "NULL",
                                                       "NaN",
                                                       "n/a",
                                                       "nan",
                                                       "null"};
  return text.empty() || std::find(kMarks.begin(), kMarks.end(), text) != kMarks.end();
}

std::optional<int64_t> id_in(std::string_view text) {
  int64_t value = 0;
  const CsvNumber found = parse_csv_number(text, value);
  if (found == CsvNumber::kGood) {
    return value;
  }
  if (found != CsvNumber::kOutOfRange) {
    return std::nullopt;
  }
  text = trim_csv_blanks(text);
  const bool is_hexadecimal = text.size() > 2 && (text[1] == 'x' || text[1] == 'X');
  text.remove_prefix(is_hexadecimal ? 2 : text.front() == '+' ? 1 : 0);
  uint64_t bits = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, bits, is_hexadecimal ? 16 : 10);
  return error == std::errc() && stop == end ? std::optional(static_cast<int64_t>(bits))
                                             : std::nullopt;
}

std::optional<int64_t> bool_in(std::string_view text) {
  text = trim_csv_blanks(text);
  for (const std::string_view one : {"true", "True", "TRUE", "1"}) {
    if (text == one) {
      return 1;
    }
  }
  for (const std::string_view zero : {"false", "False", "FALSE", "0"}) {
    if (text == zero) {
      return 0;
    }
  }
  return std::nullopt;
}

std::optional<__int128> instant_in(std::string_view text) {
  text = trim_csv_blanks(text);
  int64_t value = 0;
  bool has_zone = false;
  // Seconds reach further than nanoseconds; a fraction requires the latter.
  for (const auto unit : {arrow::TimeUnit::SECOND, arrow::TimeUnit::NANO}) {
    if (arrow::internal::ParseTimestampISO8601(text.data(), text.size(), unit, &value, &has_zone)) {
      return static_cast<__int128>(value) * nanoseconds_of(unit_of(unit));
    }
  }
  return std::nullopt;
}

}  // namespace tenon
