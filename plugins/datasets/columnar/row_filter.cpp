// SPDX-License-Identifier: Apache-2.0
#include "row_filter.hpp"

#include <arrow/array.h>
#include <arrow/scalar.h>
#include <charconv>
#include <cmath>
#include <parquet/arrow/reader.h>
#include <parquet/metadata.h>
#include <parquet/statistics.h>
#include <string_view>

#include "../csv/csv_parser.hpp"
#include "column.hpp"
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

// -1, 0 or 1; none if the values cannot be compared, as with NaN.
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

// Decimal integer of at most 38 digits.
std::optional<__int128> integer_in(std::string_view text) {
  constexpr size_t kMostDigits = 38;
  const bool is_negative = !text.empty() && text.front() == '-';
  text.remove_prefix(is_negative ? 1 : 0);
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

// The number in a text; none if it is not one.
std::optional<FilterValue> number_in(std::string_view text) {
  text = trim_csv_blanks(text);
  if (const std::optional<__int128> whole = integer_in(text)) {
    return FilterValue(*whole);
  }
  double number = 0;
  return parse_csv_number(text, number) == CsvNumber::kGood ? std::optional(FilterValue(number))
                                                            : std::nullopt;
}

bool is_text(const FilterValue& value) {
  return std::holds_alternative<std::string>(value);
}

template <class T>
__int128 integer_at(const arrow::Array& array, int64_t i) {
  return static_cast<__int128>(array.data()->GetValues<T>(1)[i]);
}

// The value of an element that is not null, as an integer, a number or a text.
FilterValue value_at(const arrow::Array& array, const ValueMeaning& meaning, int64_t i) {
  using arrow::Type;
  switch (array.type_id()) {
    case Type::BOOL:
      return __int128{static_cast<const arrow::BooleanArray&>(array).Value(i) ? 1 : 0};
    case Type::INT8:
      return integer_at<int8_t>(array, i);
    case Type::INT16:
      return integer_at<int16_t>(array, i);
    case Type::INT32:
    case Type::DATE32:
    case Type::TIME32:
      return integer_at<int32_t>(array, i) * nanoseconds_of(meaning.unit);
    case Type::UINT8:
      return integer_at<uint8_t>(array, i);
    case Type::UINT16:
      return integer_at<uint16_t>(array, i);
    case Type::UINT32:
      return integer_at<uint32_t>(array, i);
    case Type::UINT64:
      return integer_at<uint64_t>(array, i);
    case Type::HALF_FLOAT: {
      double value = 0;
      copy_values<double>(
          array, {{i, i + 1}}, StringHash::kNone, 0, [](int64_t) {}, [](int64_t) {}, &value);
      return value;
    }
    case Type::FLOAT:
      return static_cast<double>(static_cast<const arrow::FloatArray&>(array).Value(i));
    case Type::DOUBLE:
      return static_cast<const arrow::DoubleArray&>(array).Value(i);
    case Type::DECIMAL32:
    case Type::DECIMAL64:
    case Type::DECIMAL128:
    case Type::DECIMAL256: {
      const std::optional<__int128> whole = decimal_as_integer(array, i);
      return whole ? FilterValue(*whole) : FilterValue(decimal_as_double(array, i));
    }
    default:
      return integer_at<int64_t>(array, i) * nanoseconds_of(meaning.unit);
  }
}

}  // namespace

void OptionType<ConditionValue>::read(const OptionReader& r,
                                      const std::string& p,
                                      const OptionField&,
                                      ConditionValue& out) {
  switch (r.kind(p)) {
    case TENON_OPTION_STRING:
      out.value = r.get_string(p);
      return;
    case TENON_OPTION_INT: {
      // As text, since an integer may need 64 bits without a sign.
      const std::string text = r.get_json(p);
      const std::optional<__int128> whole = integer_in(text);
      out.value = whole ? FilterValue(*whole) : FilterValue(r.get_double(p));
      return;
    }
    default:
      out.value = r.get_double(p);
  }
}

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
  binder.field("value", &Condition::value)
      .required()
      .doc(
          "number; string for string columns; \"2026-11-20 07:30\", UTC, for times. A number is a "
          "time in the column's unit");
}

std::vector<std::string> RowFilter::columns() const {
  std::vector<std::string> names;
  for (const Condition& condition : conditions_) {
    names.push_back(condition.column);
  }
  return names;
}

void RowFilter::set_unit(const std::string& column, TimeUnit unit) {
  for (size_t i = 0; i < conditions_.size(); ++i) {
    if (conditions_[i].column == column && unit != TimeUnit::kAuto) {
      known_[i].declared = unit;
    }
  }
}

void RowFilter::check(const arrow::Schema& schema, const std::string& file) const {
  for (size_t i = 0; i < conditions_.size(); ++i) {
    const Condition& condition = conditions_[i];
    const std::shared_ptr<arrow::Field> field = schema.GetFieldByName(condition.column);
    if (field == nullptr) {
      TENON_FAIL(TENON_NOT_FOUND,
                 "columnar.no_column",
                 file,
                 ": no column ",
                 json_string(condition.column),
                 ", which `where` refers to");
    }
    const ValueMeaning meaning = meaning_of(*field);
    const FilterValue& value = condition.value.value;
    bool is_comparable = shape_of(field->type()).levels == 0;
    if (!meaning.is_untyped && meaning.kind != ValueKind::kNull) {
      const auto* const text = std::get_if<std::string>(&value);
      const bool is_comparable_text =
          text != nullptr && (meaning.kind == ValueKind::kText ||
                              (meaning.kind == ValueKind::kInstant && instant_in(*text)) ||
                              (is_number(meaning.kind) && number_in(*text)));
      is_comparable =
          is_comparable &&
          (text == nullptr ? is_number(meaning.kind) || is_time(meaning.kind) : is_comparable_text);
    }
    if (!is_comparable) {
      TENON_FAIL(TENON_INVALID,
                 "columnar.wrong_type",
                 file,
                 ": the column ",
                 json_string(condition.column),
                 " is ",
                 field->type()->ToString(),
                 ", but `where` compares it with a ",
                 is_text(value) ? concat("string, ", json_string(std::get<std::string>(value)))
                                : "number");
    }
    check_known(i, meaning, *field, file);
  }
}

void RowFilter::check_known(size_t i,
                            const ValueMeaning& meaning,
                            const arrow::Field& field,
                            const std::string& file) const {
  if (meaning.is_untyped || meaning.kind == ValueKind::kNull) {
    return;
  }
  const std::lock_guard lock(mutex_);
  Known& known = known_[i];
  if (known.file.empty()) {
    known.meaning = meaning;
    known.type = field.type()->ToString();
    known.file = file;
    return;
  }
  const bool are_numbers = is_number(meaning.kind) && is_number(known.meaning.kind);
  const bool have_equal_zones =
      meaning.zone == known.meaning.zone || meaning.zone == TimeZone::kAny ||
      known.meaning.zone == TimeZone::kAny || known.declared != TimeUnit::kAuto;
  if (!are_numbers && (meaning.kind != known.meaning.kind || !have_equal_zones)) {
    TENON_FAIL(TENON_INVALID,
               "columnar.wrong_type",
               file,
               ": the column ",
               json_string(field.name()),
               " is ",
               field.type()->ToString(),
               ", but ",
               known.type,
               " in ",
               known.file,
               ", so that `where` cannot compare both with one value");
  }
}

std::optional<FilterValue> RowFilter::wanted(size_t i, const ValueMeaning& meaning) const {
  const FilterValue& value = conditions_[i].value.value;
  if (const auto* const text = std::get_if<std::string>(&value)) {
    if (meaning.is_untyped || meaning.kind == ValueKind::kText) {
      return value;
    }
    if (meaning.kind != ValueKind::kInstant) {
      return number_in(*text);
    }
    const std::optional<__int128> instant = instant_in(*text);
    return instant ? std::optional(FilterValue(*instant)) : std::nullopt;
  }
  if (!is_time(meaning.kind) || meaning.is_untyped) {
    return value;
  }
  TimeUnit unit = TimeUnit::kAuto;
  {
    const std::lock_guard lock(mutex_);
    unit = known_[i].declared != TimeUnit::kAuto ? known_[i].declared : known_[i].meaning.unit;
  }
  const int64_t nanoseconds = nanoseconds_of(unit);
  if (const auto* const whole = std::get_if<__int128>(&value)) {
    return FilterValue(*whole * nanoseconds);
  }
  return FilterValue(std::get<double>(value) * static_cast<double>(nanoseconds));
}

void RowFilter::apply(const arrow::RecordBatch& batch,
                      const RowPlace& place,
                      std::vector<char>& keep) const {
  for (size_t c = 0; c < conditions_.size(); ++c) {
    const Condition& condition = conditions_[c];
    const int index = batch.schema()->GetFieldIndex(condition.column);
    const ValueMeaning meaning = meaning_of(*batch.schema()->field(index));
    // None for a column without values, whose rows never match.
    const FilterValue value = wanted(c, meaning).value_or(__int128{0});
    std::shared_ptr<arrow::Array> column = plain(batch.column(index));
    const auto apply_to_rows = [&](const auto& value_of_row) {
      for (int64_t row = 0; row < batch.num_rows(); ++row) {
        char& kept = keep[static_cast<size_t>(row)];
        kept = kept != 0 && !has_null(*column, row) && fits(value_of_row(row), condition.op, value)
                   ? 1
                   : 0;
      }
    };
    if (meaning.kind == ValueKind::kText || meaning.is_untyped) {
      std::vector<int64_t> offsets = {0};
      const OnBadOffset on_bad = [&](int64_t row) {
        TENON_FAIL(TENON_INVALID,
                   "columnar.bad_offsets",
                   place.of_row(row),
                   "the column ",
                   json_string(condition.column),
                   " has corrupt offsets");
      };
      const std::string bytes = copy_text(
          *column, {{0, batch.num_rows()}}, offsets, [](int64_t) {}, on_bad);
      apply_to_rows([&](int64_t row) -> std::optional<FilterValue> {
        const auto i = static_cast<size_t>(row);
        std::string text = bytes.substr(static_cast<size_t>(offsets[i]),
                                        static_cast<size_t>(offsets[i + 1] - offsets[i]));
        if (is_text(value)) {
          return FilterValue(std::move(text));
        }
        if (is_null_mark(trim_csv_blanks(text))) {
          return std::nullopt;
        }
        const std::optional<FilterValue> number = number_in(text);
        if (!number) {
          TENON_FAIL(TENON_INVALID,
                     "columnar.bad_value",
                     place.of_row(row),
                     "the column ",
                     json_string(condition.column),
                     " is ",
                     json_string(text),
                     ", but `where` compares it with a number");
        }
        return number;
      });
      continue;
    }
    if (column->type_id() != arrow::Type::DICTIONARY) {
      apply_to_rows([&](int64_t row) -> std::optional<FilterValue> {
        return value_at(*column, meaning, row);
      });
      continue;
    }
    const auto& dictionary = static_cast<const arrow::DictionaryArray&>(*column);
    const std::shared_ptr<arrow::Array> words = plain(dictionary.dictionary());
    apply_to_rows([&](int64_t row) -> std::optional<FilterValue> {
      const int64_t word = dictionary.GetValueIndex(row);
      return word < 0 || word >= words->length() ? std::nullopt
                                                 : std::optional(value_at(*words, meaning, word));
    });
  }
}

bool RowFilter::may_fit(const parquet::RowGroupMetaData& group) const {
  for (size_t c = 0; c < conditions_.size(); ++c) {
    const Condition& condition = conditions_[c];
    const bool has_own = group.schema()->group_node()->FieldIndex(condition.column) >= 0;
    for (int i = 0; i < group.num_columns(); ++i) {
      const parquet::ColumnDescriptor* const column = group.schema()->Column(i);
      // A column's own name comes before a path through structs.
      if (column->path()->ToDotString() != condition.column ||
          (column->path()->ToDotVector().size() > 1 && has_own)) {
        continue;
      }
      const std::shared_ptr<parquet::Statistics> statistics = group.ColumnChunk(i)->statistics();
      std::shared_ptr<arrow::Scalar> least;
      std::shared_ptr<arrow::Scalar> most;
      if (statistics == nullptr || !statistics->HasMinMax() ||
          !parquet::arrow::StatisticsAsScalars(*statistics, &least, &most).ok() ||
          !least->is_valid || !most->is_valid) {
        continue;
      }
      const ValueMeaning meaning = meaning_of(*least->type);
      const auto value_of_scalar = [&](const arrow::Scalar& scalar) -> std::optional<FilterValue> {
        if (meaning.kind == ValueKind::kText) {
          const auto& text = static_cast<const arrow::BaseBinaryScalar&>(scalar);
          return FilterValue(text.value->ToString());
        }
        const auto array = arrow::MakeArrayFromScalar(scalar, 1);
        return array.ok() ? std::optional(value_at(**array, meaning, 0)) : std::nullopt;
      };
      const bool is_comparable = meaning.kind == ValueKind::kText
                                     ? is_text(condition.value.value) &&
                                           least->type->id() != arrow::Type::FIXED_SIZE_BINARY
                                     : is_number(meaning.kind) || is_time(meaning.kind);
      if (!is_comparable) {
        continue;
      }
      const std::optional<FilterValue> value = wanted(c, meaning);
      if (!value) {
        continue;
      }
      const std::optional<FilterValue> low = value_of_scalar(*least);
      const std::optional<FilterValue> high = value_of_scalar(*most);
      constexpr int kNone = 2;
      const int with_low = low ? compare(*low, *value).value_or(kNone) : kNone;
      const int with_high = high ? compare(*high, *value).value_or(kNone) : kNone;
      if (with_low == kNone || with_high == kNone) {
        continue;
      }
      bool may = true;
      switch (condition.op) {
        case Comparison::kEqual:
          may = with_low <= 0 && with_high >= 0;
          break;
        case Comparison::kNotEqual:
          may = with_low != 0 || with_high != 0;
          break;
        case Comparison::kLess:
          may = with_low < 0;
          break;
        case Comparison::kLessEqual:
          may = with_low <= 0;
          break;
        case Comparison::kGreater:
          may = with_high > 0;
          break;
        case Comparison::kGreaterEqual:
          may = with_high >= 0;
          break;
      }
      if (!may) {
        return false;
      }
    }
  }
  return true;
}

bool RowFilter::fits_partition(const std::string& key,
                               const std::optional<std::string>& value,
                               const std::string& file) const {
  for (const Condition& condition : conditions_) {
    if (condition.column != key) {
      continue;
    }
    const FilterValue& wanted = condition.value.value;
    std::optional<FilterValue> found;
    if (value) {
      found = is_text(wanted) ? FilterValue(*value) : number_in(*value);
      if (!found) {
        TENON_FAIL(TENON_INVALID,
                   "columnar.wrong_type",
                   file,
                   ": the folder ",
                   key,
                   "=",
                   *value,
                   " is no number, but `where` compares it with a number");
      }
    }
    if (!fits(found, condition.op, wanted)) {
      return false;
    }
  }
  return true;
}

}  // namespace tenon
