// SPDX-License-Identifier: Apache-2.0
#include "row_filter.hpp"

#include <algorithm>
#include <arrow/array.h>
#include <arrow/scalar.h>
#include <parquet/arrow/reader.h>
#include <parquet/metadata.h>
#include <parquet/statistics.h>
#include <string_view>

#include "column.hpp"
#include "column_arrays.hpp"
#include "leaf_conversion.hpp"

namespace tenon {
namespace {

// Whether the column reads this source. Options of types restrict inferred_sources().
bool reads(ColumnOptions column, const arrow::Schema& schema, const std::string& source) {
  column.type = ColumnType::kAuto;
  column.hash = StringHash::kNone;
  column.unit = TimeUnit::kAuto;
  return inferred_sources(column, schema).count(source) > 0;
}

// What texts without a type are, for messages.
const char* texts_text(ValueKind kind) {
  switch (kind) {
    case ValueKind::kText:
      return "text";
    case ValueKind::kInstant:
      return "text, read as times";
    case ValueKind::kBool:
      return "text, read as booleans";
    default:
      return "text, read as numbers";
  }
}

const char* value_text(ValueKind kind) {
  return kind == ValueKind::kInstant ? "time" : kind == ValueKind::kBool ? "boolean" : "number";
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

std::set<std::string> RowFilter::inferred_sources(const arrow::Schema& schema) const {
  std::set<std::string> names;
  for (const Condition& condition : conditions_) {
    if (!declared_in(schema, condition.column).has_type()) {
      names.insert(condition.column);
    }
  }
  return names;
}

RowFilter::Declared RowFilter::declared_in(const arrow::Schema& schema,
                                           const std::string& source) const {
  Declared declared;
  bool is_hashed = false;
  bool is_plain = false;
  for (const ColumnOptions& column : columns_) {
    if (!reads(column, schema, source)) {
      continue;
    }
    const bool has_hash = column.hash != StringHash::kNone;
    is_hashed = is_hashed || has_hash;
    is_plain = is_plain || !has_hash;
    if (declared.unit == TimeUnit::kAuto) {
      declared.unit = column.unit;
    }
    if (declared.type == ColumnType::kAuto && !has_hash) {
      declared.type = column.type;
    }
    const std::vector<std::string> names = named_sources(column);
    declared.may_be_absent =
        declared.may_be_absent || (column.absent == Absent::kMissing &&
                                   std::find(names.begin(), names.end(), source) != names.end());
  }
  if (is_hashed && !is_plain) {
    declared.type = ColumnType::kText;
  }
  return declared;
}

void RowFilter::add_folders(const Folders& folders) {
  for (const auto& [key, value] : folders) {
    for (size_t i = 0; i < conditions_.size(); ++i) {
      if (conditions_[i].column == key) {
        known_[i].in_folders.add(value.value_or(""));
      }
    }
  }
}

void RowFilter::resolve() {
  {
    const std::lock_guard lock(mutex_);
    is_resolved_ = true;
  }
  for (size_t i = 0; i < conditions_.size(); ++i) {
    check_value(i);
  }
}

void RowFilter::check(const arrow::Schema& schema, const std::string& file) const {
  for (size_t i = 0; i < conditions_.size(); ++i) {
    const Condition& condition = conditions_[i];
    check_unique(schema, file, condition.column);
    const std::shared_ptr<arrow::Field> field = schema.GetFieldByName(condition.column);
    const Declared declared = declared_in(schema, condition.column);
    if (field == nullptr && declared.may_be_absent) {
      continue;
    }
    if (field == nullptr) {
      TENON_FAIL(TENON_NOT_FOUND,
                 "columnar.no_column",
                 file,
                 ": no column ",
                 json_string(condition.column),
                 ", which `where` refers to");
    }
    const ValueMeaning meaning = meaning_of(*field);
    bool is_comparable = shape_of(field->type()).levels == 0;
    if (!meaning.is_untyped && meaning.kind != ValueKind::kNull) {
      const auto* const text = std::get_if<std::string>(&condition.value.value);
      is_comparable =
          is_comparable && (text == nullptr ? is_number(meaning.kind) || is_time(meaning.kind)
                                            : value_in(*text, meaning.kind).has_value());
    }
    if (!is_comparable) {
      fail_value(i, file, field->type()->ToString(), "");
    }
    check_known(i, declared, meaning, *field, file);
  }
}

void RowFilter::fail_value(size_t i,
                           const std::string& file,
                           const std::string& what,
                           const std::string& advice) const {
  const FilterValue& value = conditions_[i].value.value;
  TENON_FAIL(
      TENON_INVALID,
      "columnar.wrong_type",
      file,
      ": the column ",
      json_string(conditions_[i].column),
      " is ",
      what,
      ", but `where` compares it with a ",
      is_text(value) ? concat("string, ", json_string(std::get<std::string>(value))) : "number",
      advice);
}

void RowFilter::check_known(size_t i,
                            const Declared& declared,
                            const ValueMeaning& meaning,
                            const arrow::Field& field,
                            const std::string& file) const {
  bool is_late = false;
  {
    const std::lock_guard lock(mutex_);
    Known& known = known_[i];
    const ValueMeaning before = known.meaning;
    const bool is_first = known.file.empty();
    if (is_first) {
      known.declared = declared;
    }
    if (meaning.kind == ValueKind::kNull && !(meaning.is_untyped && is_first)) {
      return;
    }
    if (is_first || before.kind == ValueKind::kNull) {
      is_late = is_resolved_;
      known.meaning = meaning;
    } else if (meaning.is_untyped) {
      known.meaning = before.is_untyped && !is_resolved_ ? joined(before, meaning) : before;
      return;
    } else if (before.is_untyped && !is_resolved_) {
      known.meaning = meaning;  // a file's type decides what the texts of others mean
      if (is_time(before.kind) && is_time(meaning.kind)) {
        known.meaning.unit = before.unit;
      }
    } else {
      check_agrees(known, meaning, field, file);
      return;
    }
    known.type = field.type()->ToString();
    known.file = file;
  }
  if (is_late) {
    check_value(i);
  }
}

void RowFilter::check_agrees(const Known& known,
                             const ValueMeaning& meaning,
                             const arrow::Field& field,
                             const std::string& file) const {
  const bool are_numbers = is_number(meaning.kind) && is_number(known.meaning.kind);
  const bool have_equal_zones =
      meaning.zone == known.meaning.zone || meaning.zone == TimeZone::kAny ||
      known.meaning.zone == TimeZone::kAny || known.declared.unit != TimeUnit::kAuto;
  if (!are_numbers && (meaning.kind != known.meaning.kind || !have_equal_zones)) {
    TENON_FAIL(TENON_INVALID,
               "columnar.wrong_type",
               file,
               ": the column ",
               json_string(field.name()),
               " is ",
               field.type()->ToString(),
               ", but ",
               known.meaning.is_untyped ? texts_text(known.meaning.kind) : known.type,
               " in ",
               known.file,
               ", so that `where` cannot compare both with one value");
  }
}

void RowFilter::check_value(size_t i) const {
  const ValueMeaning meaning = meaning_of_texts(i);
  std::string file;
  {
    const std::lock_guard lock(mutex_);
    file = known_[i].file;
  }
  if (file.empty() || meaning.kind == ValueKind::kNull || wanted(i, meaning)) {
    return;
  }
  fail_value(i,
             file,
             texts_text(meaning.kind),
             meaning.kind == ValueKind::kText ? "; write `value` as a string" : "");
}

ValueMeaning RowFilter::meaning_of_texts(size_t i) const {
  const std::lock_guard lock(mutex_);
  const Known& known = known_[i];
  const Declared& declared = known.declared;
  ValueMeaning meaning = known.meaning;
  if (declared.unit != TimeUnit::kAuto) {
    meaning.kind = ValueKind::kInstant;
    meaning.unit = declared.unit;
  } else if (declared.type == ColumnType::kText) {
    meaning.kind = ValueKind::kText;
  } else if (declared.type != ColumnType::kAuto && meaning.is_untyped && !is_time(meaning.kind) &&
             (meaning.kind != ValueKind::kBool || declared.type != ColumnType::kIds)) {
    meaning.kind = ValueKind::kReal;
  }
  return meaning;
}

std::optional<FilterValue> RowFilter::wanted(size_t i, const ValueMeaning& meaning) const {
  const FilterValue& value = conditions_[i].value.value;
  if (const auto* const text = std::get_if<std::string>(&value)) {
    return value_in(*text, meaning.kind);
  }
  if (!is_time(meaning.kind)) {
    return is_number(meaning.kind) ? std::optional(value) : std::nullopt;
  }
  TimeUnit unit = TimeUnit::kAuto;
  {
    const std::lock_guard lock(mutex_);
    const Known& known = known_[i];
    unit = known.declared.unit != TimeUnit::kAuto ? known.declared.unit : known.meaning.unit;
  }
  const int64_t nanoseconds = nanoseconds_of(unit);
  if (const auto* const whole = std::get_if<__int128>(&value)) {
    return FilterValue(*whole * nanoseconds);
  }
  return FilterValue(std::get<double>(value) * static_cast<double>(nanoseconds));
}

void RowFilter::apply(const arrow::RecordBatch& batch,
                      const RowOrigin& origin,
                      std::vector<char>& keep) const {
  for (size_t c = 0; c < conditions_.size(); ++c) {
    const Condition& condition = conditions_[c];
    const int index = batch.schema()->GetFieldIndex(condition.column);
    ValueMeaning meaning = index < 0 ? ValueMeaning() : meaning_of(*batch.schema()->field(index));
    const bool has_texts = meaning.kind == ValueKind::kText || meaning.is_untyped;
    if (meaning.is_untyped) {
      meaning = meaning_of_texts(c);
    }
    const std::optional<FilterValue> value = wanted(c, meaning);
    if (index < 0 || !value) {  // the column is absent, or has nulls only
      std::fill(keep.begin(), keep.end(), 0);
      return;
    }
    const std::shared_ptr<arrow::Array> column = plain(batch.column(index));
    const auto apply_to_rows = [&](const auto& value_of_row) {
      for (int64_t row = 0; row < batch.num_rows(); ++row) {
        char& kept = keep[static_cast<size_t>(row)];
        kept = kept != 0 && !has_null(*column, row) && fits(value_of_row(row), condition.op, *value)
                   ? 1
                   : 0;
      }
    };
    if (has_texts) {
      std::vector<int64_t> offsets = {0};
      const OnBadOffset on_bad = [&](int64_t row) {
        TENON_FAIL(TENON_INVALID,
                   "columnar.bad_offsets",
                   origin.of_row(row),
                   "the column ",
                   json_string(condition.column),
                   " has corrupt offsets");
      };
      const std::string bytes = copy_text(
          *column, {{0, batch.num_rows()}}, offsets, [](int64_t) {}, on_bad);
      apply_to_rows([&](int64_t row) -> std::optional<FilterValue> {
        const auto i = static_cast<size_t>(row);
        const std::string_view text = std::string_view(bytes).substr(
            static_cast<size_t>(offsets[i]), static_cast<size_t>(offsets[i + 1] - offsets[i]));
        if (is_null_text(text, meaning.kind)) {
          return std::nullopt;
        }
        std::optional<FilterValue> found = value_in(text, meaning.kind);
        if (!found) {
          TENON_FAIL(TENON_INVALID,
                     "columnar.bad_value",
                     origin.of_row(row),
                     "the column ",
                     json_string(condition.column),
                     " is ",
                     json_string(std::string(text)),
                     ", but `where` compares it with a ",
                     value_text(meaning.kind));
        }
        return found;
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
    const std::shared_ptr<arrow::Array> words = dictionary.dictionary();
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
  for (size_t c = 0; c < conditions_.size(); ++c) {
    if (conditions_[c].column != key) {
      continue;
    }
    {
      const std::lock_guard lock(mutex_);
      Known& known = known_[c];
      if (known.meaning.is_untyped && !is_resolved_) {
        known.meaning = joined(known.meaning, known.in_folders.meaning());
      }
    }
    const ValueMeaning meaning = meaning_of_texts(c);
    if (!value || is_null_text(*value, meaning.kind)) {
      return false;
    }
    const std::optional<FilterValue> found = value_in(*value, meaning.kind);
    if (!found) {
      TENON_FAIL(TENON_INVALID,
                 "columnar.wrong_type",
                 file,
                 ": the folder ",
                 key,
                 "=",
                 *value,
                 " is no ",
                 value_text(meaning.kind),
                 ", but `where` compares it with a ",
                 value_text(meaning.kind));
    }
    // resolve() rejects a condition without a value to compare with.
    const std::optional<FilterValue> limit = wanted(c, meaning);
    if (limit && !fits(found, conditions_[c].op, *limit)) {
      return false;
    }
  }
  return true;
}

}  // namespace tenon
