// SPDX-License-Identifier: Apache-2.0
//
// Filters rows by conditions on columns. Row group statistics decide if they suffice; otherwise the
// values decide.
// Invariant: a row group is skipped only if none of its rows matches.
// Threads: a value; const functions from any thread.
#pragma once

#include <tenon/cpp/options.hpp>

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace parquet {
class RowGroupMetaData;
}

namespace tenon {

// A number or string in a recipe.
struct ConditionValue {
  std::variant<int64_t, double, std::string> value = int64_t{0};
};

enum class Comparison { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual };

struct Condition {
  std::string column;
  Comparison op = Comparison::kEqual;
  ConditionValue value;

  static void bind(OptionBinder<Condition>& binder);
};

class RowFilter {
 public:
  explicit RowFilter(std::vector<Condition> conditions) : conditions_(std::move(conditions)) {}

  bool is_empty() const { return conditions_.empty(); }
  std::vector<std::string> columns() const;

  // Checks that each column exists and that its type is comparable with the condition's value.
  //
  // Errors   columnar.no_column, columnar.wrong_type
  void check(const arrow::Schema& schema, const std::string& file) const;

  // Clears keep[i] for rows that do not match. A null never matches.
  void apply(const arrow::RecordBatch& batch, std::vector<char>& keep) const;

  // False if the statistics of a Parquet row group exclude all its rows.
  bool may_fit(const parquet::RowGroupMetaData& group) const;
  // False if the value of a partition folder does not match.
  bool fits_partition(const std::string& key, const std::string& value) const;

 private:
  std::vector<Condition> conditions_;
};

template <>
struct OptionType<ConditionValue> {
  static std::string schema(const OptionField&) { return R"("type": ["number", "string"])"; }
  static std::string json(const OptionField&, const ConditionValue&) { return "0"; }
  static bool has_default(const OptionField&) { return true; }
  static void read(const OptionReader& r,
                   const std::string& p,
                   const OptionField&,
                   ConditionValue& out) {
    switch (r.kind(p)) {
      case TENON_OPTION_STRING:
        out.value = r.get_string(p);
        return;
      case TENON_OPTION_INT:
        out.value = r.get_int(p);
        return;
      default:
        out.value = r.get_double(p);
    }
  }
};

}  // namespace tenon
