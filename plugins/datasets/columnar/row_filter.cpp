// SPDX-License-Identifier: Apache-2.0
#include "row_filter.hpp"

#include <arrow/scalar.h>
#include <parquet/arrow/reader.h>
#include <parquet/metadata.h>
#include <parquet/statistics.h>
#include <string_view>

#include "column_arrays.hpp"

namespace tenon {
namespace {

using Value = std::variant<int64_t, double, std::string>;

// -1, 0 or 1; none if the values cannot be compared, as with NaN.
std::optional<int> compare(const Value& a, const Value& b) {
  const auto order = [](const auto& x, const auto& y) -> std::optional<int> {
    return x < y    ? std::optional(-1)
           : y < x  ? std::optional(1)
           : x == y ? std::optional(0)
                    : std::nullopt;
  };
  const bool is_text = std::holds_alternative<std::string>(a);
  if (is_text != std::holds_alternative<std::string>(b)) {
    return std::nullopt;
  }
  if (is_text) {
    return order(std::get<std::string>(a), std::get<std::string>(b));
  }
  if (std::holds_alternative<int64_t>(a) && std::holds_alternative<int64_t>(b)) {
    return order(std::get<int64_t>(a), std::get<int64_t>(b));
  }
  const auto number = [](const Value& value) {
    return std::holds_alternative<double>(value) ? std::get<double>(value)
                                                 : static_cast<double>(std::get<int64_t>(value));
  };
  return order(number(a), number(b));
}

bool fits(const Value& value, const Condition& condition) {
  const std::optional<int> order = compare(value, condition.value.value);
  if (!order) {
    return false;
  }
  switch (condition.op) {
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

std::optional<Value> value_of_scalar(const arrow::Scalar& scalar) {
  using arrow::Type;
  if (!scalar.is_valid) {
    return std::nullopt;
  }
  switch (scalar.type->id()) {
    case Type::INT8:
      return int64_t{static_cast<const arrow::Int8Scalar&>(scalar).value};
    case Type::INT16:
      return int64_t{static_cast<const arrow::Int16Scalar&>(scalar).value};
    case Type::INT32:
      return int64_t{static_cast<const arrow::Int32Scalar&>(scalar).value};
    case Type::DATE32:
      return int64_t{static_cast<const arrow::Date32Scalar&>(scalar).value};
    case Type::INT64:
      return static_cast<const arrow::Int64Scalar&>(scalar).value;
    case Type::TIMESTAMP:
      return static_cast<const arrow::TimestampScalar&>(scalar).value;
    case Type::UINT8:
      return int64_t{static_cast<const arrow::UInt8Scalar&>(scalar).value};
    case Type::UINT16:
      return int64_t{static_cast<const arrow::UInt16Scalar&>(scalar).value};
    case Type::UINT32:
      return int64_t{static_cast<const arrow::UInt32Scalar&>(scalar).value};
    case Type::FLOAT:
      return double{static_cast<const arrow::FloatScalar&>(scalar).value};
    case Type::DOUBLE:
      return static_cast<const arrow::DoubleScalar&>(scalar).value;
    case Type::STRING:
    case Type::BINARY:
    case Type::LARGE_STRING:
    case Type::LARGE_BINARY:
      return static_cast<const arrow::BaseBinaryScalar&>(scalar).value->ToString();
    default:
      return std::nullopt;
  }
}

bool is_within_i64(const arrow::DataType& type) {
  return holds_whole_numbers(type) && type.id() != arrow::Type::UINT64;
}

}  // namespace

void Condition::bind(OptionBinder<Condition>& binder) {
  binder.field("column", &Condition::column)
      .required()
      .non_empty()
      .doc("column with one value per row, or the KEY of KEY=VALUE folders");
  binder
      .choice("op",
              &Condition::op,
              {{"==", Comparison::kEqual},
               {"!=", Comparison::kNotEqual},
               {"<", Comparison::kLess},
               {"<=", Comparison::kLessEqual},
               {">", Comparison::kGreater},
               {">=", Comparison::kGreaterEqual}})
      .doc("comparison with `value`");
  binder.field("value", &Condition::value).required().doc("number, or string for string columns");
}

std::vector<std::string> RowFilter::columns() const {
  std::vector<std::string> names;
  for (const Condition& condition : conditions_) {
    names.push_back(condition.column);
  }
  return names;
}

void RowFilter::check(const arrow::Schema& schema, const std::string& file) const {
  for (const Condition& condition : conditions_) {
    const std::shared_ptr<arrow::Field> field = schema.GetFieldByName(condition.column);
    if (field == nullptr) {
      TENON_FAIL(TENON_NOT_FOUND,
                 "columnar.no_column",
                 file,
                 ": no column ",
                 json_string(condition.column),
                 ", which `where` refers to");
    }
    const bool is_text = std::holds_alternative<std::string>(condition.value.value);
    const ArrayShape shape = shape_of(field->type());
    if (shape.levels > 0 || (is_text ? !holds_strings(*shape.leaf) : !holds_numbers(*shape.leaf))) {
      TENON_FAIL(TENON_INVALID,
                 "columnar.wrong_type",
                 file,
                 ": the column ",
                 json_string(condition.column),
                 " is ",
                 field->type()->ToString(),
                 ", but `where` compares it with ",
                 is_text ? "a string" : "a number");
    }
  }
}

void RowFilter::apply(const arrow::RecordBatch& batch, std::vector<char>& keep) const {
  const int64_t n = batch.num_rows();
  for (const Condition& condition : conditions_) {
    const std::shared_ptr<arrow::Array> column = batch.GetColumnByName(condition.column);
    const ElementRanges all = {{0, n}};
    std::vector<char> is_null(static_cast<size_t>(n), 0);
    const OnNull on_null = [&](int64_t row) { is_null[static_cast<size_t>(row)] = 1; };
    const OnBadOffset on_bad = [&](int64_t row) {
      TENON_FAIL(TENON_INVALID,
                 "columnar.bad_offsets",
                 "the column ",
                 json_string(condition.column),
                 " has corrupt offsets at row ",
                 row,
                 " of the record batch");
    };
    const auto apply_to_rows = [&](const auto& value_at) {
      for (int64_t row = 0; row < n; ++row) {
        const auto i = static_cast<size_t>(row);
        keep[i] = keep[i] != 0 && is_null[i] == 0 && fits(value_at(i), condition) ? 1 : 0;
      }
    };
    if (std::holds_alternative<std::string>(condition.value.value)) {
      std::vector<int64_t> offsets = {0};
      const std::string bytes = copy_text(*column, all, offsets, on_null, on_bad);
      apply_to_rows([&](size_t i) {
        return Value(bytes.substr(static_cast<size_t>(offsets[i]),
                                  static_cast<size_t>(offsets[i + 1] - offsets[i])));
      });
    } else if (is_within_i64(*column->type())) {
      std::vector<int64_t> values(static_cast<size_t>(n));
      copy_values<int64_t>(*column, all, StringHash::kNone, 0, on_null, on_bad, values.data());
      apply_to_rows([&](size_t i) { return Value(values[i]); });
    } else {
      std::vector<double> values(static_cast<size_t>(n));
      copy_values<double>(*column, all, StringHash::kNone, 0, on_null, on_bad, values.data());
      apply_to_rows([&](size_t i) { return Value(values[i]); });
    }
  }
}

bool RowFilter::may_fit(const parquet::RowGroupMetaData& group) const {
  for (const Condition& condition : conditions_) {
    for (int i = 0; i < group.num_columns(); ++i) {
      const parquet::ColumnDescriptor* const column = group.schema()->Column(i);
      if (column->path()->ToDotString() != condition.column) {
        continue;
      }
      const std::shared_ptr<parquet::Statistics> statistics = group.ColumnChunk(i)->statistics();
      std::shared_ptr<arrow::Scalar> least;
      std::shared_ptr<arrow::Scalar> most;
      if (statistics == nullptr || !statistics->HasMinMax() ||
          !parquet::arrow::StatisticsAsScalars(*statistics, &least, &most).ok()) {
        continue;
      }
      const std::optional<Value> low = value_of_scalar(*least);
      const std::optional<Value> high = value_of_scalar(*most);
      if (!low || !high) {
        continue;
      }
      const std::optional<int> with_low = compare(*low, condition.value.value);
      const std::optional<int> with_high = compare(*high, condition.value.value);
      if (!with_low || !with_high) {
        continue;
      }
      bool may = true;
      switch (condition.op) {
        case Comparison::kEqual:
          may = *with_low <= 0 && *with_high >= 0;
          break;
        case Comparison::kNotEqual:
          may = *with_low != 0 || *with_high != 0;
          break;
        case Comparison::kLess:
          may = *with_low < 0;
          break;
        case Comparison::kLessEqual:
          may = *with_low <= 0;
          break;
        case Comparison::kGreater:
          may = *with_high > 0;
          break;
        case Comparison::kGreaterEqual:
          may = *with_high >= 0;
          break;
      }
      if (!may) {
        return false;
      }
    }
  }
  return true;
}

bool RowFilter::fits_partition(const std::string& key, const std::string& value) const {
  for (const Condition& condition : conditions_) {
    if (condition.column != key) {
      continue;
    }
    Value found = value;
    if (!std::holds_alternative<std::string>(condition.value.value)) {
      char* end = nullptr;
      found = static_cast<int64_t>(std::strtoll(value.c_str(), &end, 10));
      if (*end != '\0') {
        return true;  // checked, and rejected, when the file is opened
      }
    }
    if (!fits(found, condition)) {
      return false;
    }
  }
  return true;
}

}  // namespace tenon
