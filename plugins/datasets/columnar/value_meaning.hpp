// SPDX-License-Identifier: Apache-2.0
//
// What the values of a source column mean, whatever their width and encoding: numbers, times in a
// unit, text. Files whose columns mean different things cannot be read as one column.
// Threads: pure functions, from any thread.
#pragma once

#include <arrow/type.h>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tenon {

enum class ValueKind {
  kNull,  // no values, or nulls only
  kBool,
  kInteger,
  kReal,
  kDecimal,
  kInstant,  // dates and timestamps
  kTimeOfDay,
  kDuration,
  kText,   // includes binary
  kOther,  // not supported
};

enum class TimeUnit { kAuto, kDay, kSecond, kMilli, kMicro, kNano };

// Whether an instant is UTC, local time of an unnamed time zone, or a date, which fits both.
enum class TimeZone { kAny, kNone, kUtc };

struct ValueMeaning {
  ValueKind kind = ValueKind::kNull;
  TimeUnit unit = TimeUnit::kAuto;  // of times
  TimeZone zone = TimeZone::kAny;   // of instants
  bool is_unsigned = false;         // 64-bit integers without a sign
  int32_t scale = 0;                // of decimals: digits after the point
  // Text that a declared type turns into values: CSV columns and KEY=VALUE folders. `kind` is then
  // inferred from the text; kNull if it was not inferred.
  bool is_untyped = false;
};

ValueMeaning meaning_of(const arrow::DataType& leaf);

// Unit of times in nanoseconds; 1 for kAuto.
int64_t nanoseconds_of(TimeUnit unit);
const char* name_of(TimeUnit unit);

bool is_time(ValueKind kind);
// Booleans, integers, decimals and floating-point numbers.
bool is_number(ValueKind kind);

// A field of text without a type. `inferred` is the meaning of its values.
std::shared_ptr<arrow::Field> untyped_field(const std::string& name, const ValueMeaning& inferred);
// Meaning of a field's values; for lists and maps, of the innermost values or keys.
ValueMeaning meaning_of(const arrow::Field& field);

// Infers the meaning of untyped texts: integers, then numbers; true and false; dates; timestamps;
// else text.
class TextMeaning {
 public:
  void add(std::string_view text);
  ValueMeaning meaning() const { return meaning_; }

 private:
  ValueMeaning meaning_;
};
// Meaning of the texts of two files together.
ValueMeaning joined(const ValueMeaning& a, const ValueMeaning& b);

// Texts that mean a null in a column of numbers, in addition to the empty text: NA, NULL, nan.
bool is_null_mark(std::string_view text);
// Integer in [-2^63, 2^64), decimal or hexadecimal; 64-bit values above 2^63 - 1 keep their bits.
std::optional<int64_t> id_in(std::string_view text);
// "true" or "false"; also "0" and "1".
std::optional<int64_t> bool_in(std::string_view text);
// ISO 8601 date or timestamp as nanoseconds since 1970, UTC.
std::optional<__int128> instant_in(std::string_view text);

}  // namespace tenon
