// SPDX-License-Identifier: Apache-2.0
//
// Filters rows by conditions on columns. Row group statistics decide if they suffice; otherwise the
// values decide. Comparisons are exact: 64-bit integers are never compared as f64, and times are
// compared in one unit.
// Invariant: a row group is skipped only if none of its rows matches.
// Threads: const functions from any thread.
#pragma once

#include <tenon/cpp/options.hpp>

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "value_meaning.hpp"

namespace parquet {
class RowGroupMetaData;
}

namespace tenon {

// A number or string in a recipe, or a value of a file. Times are nanoseconds.
using FilterValue = std::variant<__int128, double, std::string>;

struct ConditionValue {
  FilterValue value = __int128{0};
};

enum class Comparison { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual };

struct Condition {
  std::string column;
  Comparison op = Comparison::kEqual;
  ConditionValue value;

  static void bind(OptionBinder<Condition>& binder);
};

// Place of a record batch in a file, for messages: of_row(row) of its rows.
struct RowPlace;

class RowFilter {
 public:
  explicit RowFilter(std::vector<Condition> conditions)
      : conditions_(std::move(conditions)), known_(conditions_.size()) {}

  bool is_empty() const { return conditions_.empty(); }
  std::vector<std::string> columns() const;
  // Sets the unit of numbers that are compared with times of a column. Otherwise it is that of the
  // first file.
  void set_unit(const std::string& column, TimeUnit unit);

  // Checks that each column exists, that its type is comparable with the condition's value, and
  // that it means the same as in earlier files.
  //
  // Errors   columnar.no_column, columnar.wrong_type
  void check(const arrow::Schema& schema, const std::string& file) const;

  // Clears keep[i] for rows that do not match. A null never matches.
  //
  // Errors   columnar.bad_value, columnar.bad_offsets
  void apply(const arrow::RecordBatch& batch, const RowPlace& place, std::vector<char>& keep) const;

  // False if the statistics of a Parquet row group exclude all its rows. Requires check().
  bool may_fit(const parquet::RowGroupMetaData& group) const;
  // False if the value of a partition folder does not match. No value is a null.
  //
  // Errors   columnar.wrong_type
  bool fits_partition(const std::string& key,
                      const std::optional<std::string>& value,
                      const std::string& file) const;

 private:
  struct Known {
    ValueMeaning meaning;
    std::string type;
    std::string file;
    TimeUnit declared = TimeUnit::kAuto;
  };

  void check_known(size_t i,
                   const ValueMeaning& meaning,
                   const arrow::Field& field,
                   const std::string& file) const;
  // The value to compare with: a time in nanoseconds, a number, or a text; none if values of this
  // meaning cannot be compared.
  std::optional<FilterValue> wanted(size_t i, const ValueMeaning& meaning) const;

  std::vector<Condition> conditions_;
  mutable std::mutex mutex_;          // guards the next member
  mutable std::vector<Known> known_;  // per condition; set by the first file
};

template <>
struct OptionType<ConditionValue> {
  static std::string schema(const OptionField&) { return R"("type": ["number", "string"])"; }
  static std::string json(const OptionField&, const ConditionValue&) { return "0"; }
  static bool has_default(const OptionField&) { return true; }
  static void read(const OptionReader& r,
                   const std::string& p,
                   const OptionField&,
                   ConditionValue& out);
};

}  // namespace tenon
