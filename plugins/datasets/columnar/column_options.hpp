// SPDX-License-Identifier: Apache-2.0
//
// Recipe options of a column. Nothing is read here.
#pragma once

#include <tenon/cpp/options.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "column_arrays.hpp"
#include "value_meaning.hpp"

namespace tenon {

enum class ColumnType { kAuto, kIds, kF32, kF64, kText };
enum class Missing { kError, kFill, kSkipRow };
// Files that lack the column.
enum class Absent { kError, kMissing };

struct ColumnOptions {
  std::string name;
  std::optional<std::string> column;
  std::vector<std::string> columns;
  ColumnType type = ColumnType::kAuto;
  std::optional<int64_t> length;
  std::optional<std::string> weights;
  StringHash hash = StringHash::kNone;
  Missing missing = Missing::kError;
  double fill = 0.0;
  Absent absent = Absent::kError;
  TimeUnit unit = TimeUnit::kAuto;
  // Not an option: the type that another column declares for the same source, if it is text
  // without a type.
  ColumnType type_in_text = ColumnType::kAuto;

  static void bind(OptionBinder<ColumnOptions>& binder) {
    binder.field("name", &ColumnOptions::name)
        .required()
        .non_empty()
        .doc("field name in the batch; ragged columns become NAME.values and NAME.offsets");
    binder.field("column", &ColumnOptions::column)
        .non_empty()
        .doc("source column in the files, or \"a.b\" for a struct field; null: same as `name`");
    binder.field("columns", &ColumnOptions::columns)
        .non_empty()
        .doc(
            "instead of `column`: columns to read as one [B, n] field; \"a..d\" is the range from "
            "a to d");
    binder
        .choice("type",
                &ColumnOptions::type,
                {{"auto", ColumnType::kAuto},
                 {"ids", ColumnType::kIds},
                 {"f32", ColumnType::kF32},
                 {"f64", ColumnType::kF64},
                 {"text", ColumnType::kText}})
        .doc(
            "value type; ids are i64. auto: ids for integers, times and hashed strings, f32 for "
            "other "
            "numbers, text for strings");
    binder.field("length", &ColumnOptions::length)
        .min(1)
        .max(int64_t{1} << 24)
        .doc(
            "entries in every list, read as [B, length]; null: ragged. Lists of any other length "
            "are errors");
    binder.field("weights", &ColumnOptions::weights)
        .non_empty()
        .doc("list column with one weight per entry; null: none. A map's values are its weights");
    binder
        .choice("hash",
                &ColumnOptions::hash,
                {{"none", StringHash::kNone},
                 {"farm", StringHash::kFarm},
                 {"murmur64", StringHash::kMurmur64},
                 {"murmur3", StringHash::kMurmur3}})
        .doc("hash function from strings to ids; the same as in the feature `hash`");
    binder
        .choice(
            "missing",
            &ColumnOptions::missing,
            {{"error", Missing::kError}, {"fill", Missing::kFill}, {"skip_row", Missing::kSkipRow}})
        .doc(
            "policy for nulls: fail, use `fill`, or skip the row. fill and skip_row apply to NaN "
            "too");
    binder.field("fill", &ColumnOptions::fill)
        .doc("value that replaces a null; a null list or text becomes empty");
    binder
        .choice("absent",
                &ColumnOptions::absent,
                {{"error", Absent::kError}, {"missing", Absent::kMissing}})
        .doc(
            "policy for files without the column: fail, or read nulls, to which `missing` applies");
    binder
        .choice("unit",
                &ColumnOptions::unit,
                {{"auto", TimeUnit::kAuto},
                 {"days", TimeUnit::kDay},
                 {"s", TimeUnit::kSecond},
                 {"ms", TimeUnit::kMilli},
                 {"us", TimeUnit::kMicro},
                 {"ns", TimeUnit::kNano}})
        .doc("unit of dates, times and durations as numbers; auto: the unit in the first file");
  }
};

}  // namespace tenon
