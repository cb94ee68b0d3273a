// SPDX-License-Identifier: Apache-2.0
#include "column_form.hpp"

#include <tenon/cpp/options.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "column_arrays.hpp"

namespace tenon {
namespace {

const char* name_of(ColumnType type) {
  switch (type) {
    case ColumnType::kIds:
      return "ids";
    case ColumnType::kF32:
      return "f32";
    case ColumnType::kF64:
      return "f64";
    case ColumnType::kText:
      return "text";
    case ColumnType::kAuto:
      break;
  }
  return "auto";
}

// "a, b, c and 12 more"
std::string columns_text(const arrow::Schema& schema) {
  constexpr int kMost = 12;
  std::string text;
  for (int i = 0; i < std::min(schema.num_fields(), kMost); ++i) {
    text += (i > 0 ? ", " : "") + schema.field(i)->name();
  }
  return schema.num_fields() > kMost ? concat(text, " and ", schema.num_fields() - kMost, " more")
                                     : text;
}

// Splits "a..d" into "a" and "d". Any other name gives an empty pair.
std::pair<std::string, std::string> range_of(const std::string& name) {
  const size_t dots = name.find("..");
  if (dots == std::string::npos || dots == 0 || dots + 2 == name.size()) {
    return {};
  }
  return {name.substr(0, dots), name.substr(dots + 2)};
}

int index_in(const arrow::Schema& schema, const std::string& file, const std::string& name) {
  check_unique(schema, file, name);
  const int index = schema.GetFieldIndex(name);
  if (index < 0) {
    TENON_FAIL(TENON_NOT_FOUND,
               "columnar.no_column",
               file,
               ": no column ",
               json_string(name),
               "; the file has ",
               columns_text(schema));
  }
  return index;
}

std::string types_text(const ColumnForm& form) {
  for (const std::shared_ptr<arrow::DataType>& type : form.types) {
    if (type != nullptr && type->id() != arrow::Type::NA) {
      return form.meaning.is_untyped ? concat("text, read as ", form.text()) : type->ToString();
    }
  }
  return "null";
}

// One source column: its field in the file, for checks and messages.
struct SourceColumn {
  const std::string& file;
  const std::string& name;
  const arrow::DataType& type;
  ArrayShape shape;
  ValueMeaning meaning;
  const ColumnForm* known;  // of earlier files, for messages; may be null

  [[noreturn]] void refuse(const std::string& why) const {
    TENON_FAIL(TENON_INVALID,
               "columnar.wrong_type",
               file,
               ": the column ",
               json_string(name),
               " is ",
               type.ToString(),
               "; ",
               why,
               known == nullptr ? "" : concat("; it is ", types_text(*known), " in ", known->file));
  }
};

ColumnType resolved_type(const ColumnOptions& options, const ValueMeaning& meaning) {
  if (options.type != ColumnType::kAuto) {
    return options.type;
  }
  if (options.hash != StringHash::kNone || options.unit != TimeUnit::kAuto) {
    return ColumnType::kIds;
  }
  if (meaning.is_untyped && options.type_in_text != ColumnType::kAuto) {
    return options.type_in_text;
  }
  switch (meaning.kind) {
    case ValueKind::kNull:
      return ColumnType::kAuto;
    case ValueKind::kReal:
      return ColumnType::kF32;
    case ValueKind::kDecimal:
      return meaning.scale > 0 ? ColumnType::kF32 : ColumnType::kIds;
    case ValueKind::kText:
    case ValueKind::kOther:
      return ColumnType::kText;
    default:
      return ColumnType::kIds;
  }
}

void check_values(const ColumnOptions& options, const SourceColumn& source, ColumnType type) {
  const ValueMeaning& meaning = source.meaning;
  if (meaning.is_untyped || meaning.kind == ValueKind::kNull) {
    return;
  }
  const bool is_text = meaning.kind == ValueKind::kText;
  const bool is_hashed = options.hash != StringHash::kNone;
  const bool is_numeric = is_number(meaning.kind) || is_time(meaning.kind);
  if (meaning.kind == ValueKind::kOther) {
    source.refuse("only numbers, times, strings, and lists and maps of these can be read");
  }
  if (type == ColumnType::kText && !is_text) {
    source.refuse("type text requires strings");
  }
  if (is_hashed && !is_text) {
    source.refuse("`hash` requires strings");
  }
  if (type == ColumnType::kIds && !is_hashed && !is_numeric) {
    source.refuse("set `hash` to convert strings to ids");
  }
  if ((type == ColumnType::kF32 || type == ColumnType::kF64) && !is_numeric) {
    source.refuse(concat("type ", name_of(type), " requires numbers"));
  }
  if (options.unit != TimeUnit::kAuto && !is_time(meaning.kind)) {
    source.refuse("`unit` requires dates, times or durations");
  }
}

void check_lists(const ColumnOptions& options, const SourceColumn& source, ColumnType type) {
  const ArrayShape& shape = source.shape;
  if (shape.levels > 2 || (shape.levels == 2 && type == ColumnType::kText)) {
    source.refuse("a batch has at most two levels of offsets, one of which text uses");
  }
  if (!options.columns.empty() && shape.levels > 0) {
    source.refuse("`columns` requires columns with one value per row");
  }
  if (options.length && (shape.levels != 1 || type == ColumnType::kText || shape.is_map)) {
    source.refuse("`length` requires lists of numbers or ids");
  }
  if (options.length && shape.list_size && *shape.list_size != *options.length) {
    source.refuse(
        concat("its lists have ", *shape.list_size, " entries, but `length` is ", *options.length));
  }
}

// Form of a field read from this source; `num_values` sources share the field.
ColumnForm form_of(const ColumnOptions& options, const SourceColumn& source, size_t num_values) {
  const ColumnType type = resolved_type(options, source.meaning);
  check_values(options, source, type);
  if (source.type.id() != arrow::Type::NA) {
    check_lists(options, source, type);
  }
  const ArrayShape& shape = source.shape;
  const int64_t width = options.length ? *options.length : shape.list_size.value_or(0);
  const bool is_fixed = width > 0 && type != ColumnType::kText && !options.weights;
  ColumnForm form;
  form.levels = is_fixed ? 0 : shape.levels + (type == ColumnType::kText ? 1 : 0);
  form.list_levels = shape.levels;
  form.width = !options.columns.empty() ? static_cast<int64_t>(num_values) : is_fixed ? width : 0;
  form.type = type;
  form.has_weights = shape.is_map || options.weights.has_value();
  form.is_map = shape.is_map;
  form.is_type_open = type == ColumnType::kAuto;
  form.are_levels_open = source.type.id() == arrow::Type::NA && options.columns.empty();
  form.meaning = source.meaning;
  if (options.unit != TimeUnit::kAuto) {
    form.meaning.unit = options.unit;
    form.meaning.kind = source.meaning.is_untyped ? ValueKind::kInstant : source.meaning.kind;
  } else if (source.meaning.is_untyped && source.meaning.kind == ValueKind::kNull) {
    form.meaning.kind = ValueKind::kInteger;  // of a declared type
  }
  return form;
}

// Whether values of both meanings can be one column of the declared type, or of any (kAuto).
bool do_agree(const ColumnOptions& options, const ValueMeaning& a, const ValueMeaning& b) {
  if (a.kind == ValueKind::kNull || b.kind == ValueKind::kNull) {
    return true;
  }
  if (a.is_untyped || b.is_untyped) {
    return is_time(a.kind) == is_time(b.kind);
  }
  if (a.kind == b.kind) {
    return a.kind != ValueKind::kInstant || a.zone == b.zone || a.zone == TimeZone::kAny ||
           b.zone == TimeZone::kAny || options.unit != TimeUnit::kAuto;
  }
  if (!is_number(a.kind) || !is_number(b.kind)) {
    return false;
  }
  return options.type != ColumnType::kAuto ||
         (a.kind != ValueKind::kBool && b.kind != ValueKind::kBool);
}

// Whether text that is inferred as `kind` can be read as the known column.
bool can_parse(ValueKind kind, const ColumnForm& known) {
  switch (known.type) {
    case ColumnType::kText:
      return true;
    case ColumnType::kF32:
    case ColumnType::kF64:
      return kind == ValueKind::kNull || kind == ValueKind::kInteger || kind == ValueKind::kReal;
    default:
      return kind == ValueKind::kNull || kind == known.meaning.kind;
  }
}

// The types of `known`, with those of `here` for sources that have only nulls so far.
std::vector<std::shared_ptr<arrow::DataType>> joined_types(const ColumnForm& known,
                                                           const ColumnForm& here) {
  std::vector<std::shared_ptr<arrow::DataType>> types = known.types;
  for (size_t i = 0; i < types.size() && i < here.types.size(); ++i) {
    if (here.types[i] != nullptr &&
        (types[i] == nullptr || shape_of(types[i]).leaf->id() == arrow::Type::NA)) {
      types[i] = here.types[i];
    }
  }
  return types;
}

[[noreturn]] void fail_types(const ColumnOptions& options,
                             const ColumnForm& known,
                             const ColumnForm& here,
                             const std::string& advice) {
  TENON_FAIL(TENON_INVALID,
             "columnar.wrong_type",
             here.file,
             ": the column ",
             json_string(options.name),
             " is ",
             types_text(here),
             " and would be read as ",
             here.text(),
             ", but as ",
             known.text(),
             " in ",
             known.file,
             ", where it is ",
             types_text(known),
             "; ",
             advice);
}

bool are_weights(const ColumnForm& form, const std::shared_ptr<arrow::DataType>& type) {
  if (form.is_map) {
    return is_number(meaning_of(*static_cast<const arrow::MapType&>(*type).item_type()).kind);
  }
  const ArrayShape shape = shape_of(type);
  const ValueKind kind = meaning_of(*shape.leaf).kind;
  return form.levels == 1 && shape.levels == 1 && !shape.is_map &&
         (is_number(kind) || kind == ValueKind::kNull);
}

}  // namespace

bool ColumnForm::has_shape_of(const ColumnForm& other) const {
  return levels == other.levels && list_levels == other.list_levels && width == other.width &&
         type == other.type && has_weights == other.has_weights && is_map == other.is_map;
}

uint32_t ColumnForm::dtype() const {
  return type == ColumnType::kIds   ? TENON_I64
         : type == ColumnType::kF32 ? TENON_F32
         : type == ColumnType::kF64 ? TENON_F64
                                    : TENON_U8;
}

size_t ColumnForm::value_size() const {
  return type == ColumnType::kF32 ? 4 : type == ColumnType::kText ? 1 : 8;
}

std::string ColumnForm::text() const {
  return concat(name_of(type),
                list_levels > 0 ? concat(" in ", list_levels, " level(s) of lists") : "",
                width > 0 ? concat(", width ", width) : "",
                has_weights ? ", with weights" : "");
}

namespace {

// The fill value of ids must be exact.
void check_fill(const ColumnOptions& options) {
  constexpr double kExact = 0x1p53;  // a number of JSON above it may be rounded
  if (options.fill != std::trunc(options.fill) || std::fabs(options.fill) >= kExact) {
    TENON_FAIL(TENON_INVALID,
               "columnar.bad_column",
               "the column ",
               json_string(options.name),
               " has ids, but `fill` ",
               options.fill,
               "; expected an integer between -2^53 and 2^53");
  }
}

// The meaning of values that no file has yet.
ValueMeaning declared_meaning(const ColumnOptions& options) {
  ValueMeaning meaning;
  if (options.unit != TimeUnit::kAuto) {
    meaning.kind = ValueKind::kInstant;
    meaning.unit = options.unit;
  } else if (options.hash != StringHash::kNone || options.type == ColumnType::kText) {
    meaning.kind = ValueKind::kText;
  } else {
    meaning.kind = options.type == ColumnType::kIds ? ValueKind::kInteger : ValueKind::kReal;
  }
  return meaning;
}

}  // namespace

void check_column_options(const ColumnOptions& options) {
  const auto fail = [&](const std::string& what) {
    TENON_FAIL(
        TENON_INVALID, "columnar.bad_column", "the column ", json_string(options.name), " ", what);
  };
  if (!options.columns.empty()) {
    if (options.column) {
      fail("has both `column` and `columns`; set only one");
    }
    if (options.length || options.weights) {
      fail("has `columns`, which cannot be combined with `length` or `weights`");
    }
    if (options.type == ColumnType::kText) {
      fail("has `columns` of type text; text requires a single `column`");
    }
  }
  if (options.hash != StringHash::kNone && options.type != ColumnType::kIds &&
      options.type != ColumnType::kAuto) {
    fail(concat("has a `hash`, which produces ids, but type ", name_of(options.type)));
  }
  if (options.type == ColumnType::kIds) {
    check_fill(options);
  }
  if (options.unit != TimeUnit::kAuto &&
      (options.hash != StringHash::kNone || options.type == ColumnType::kText)) {
    fail("has a `unit`, which requires times as numbers");
  }
  if (options.absent == Absent::kMissing && options.missing == Missing::kError) {
    fail("has `absent` \"missing\"; set `missing` to \"fill\" or \"skip_row\" as well");
  }
  if (options.weights && (options.length || options.type == ColumnType::kText)) {
    fail("has `weights`, which require a ragged column of numbers or ids");
  }
}

std::vector<std::string> named_sources(const ColumnOptions& options) {
  std::vector<std::string> names = options.columns;
  if (names.empty()) {
    names.push_back(options.column.value_or(options.name));
  }
  if (options.weights) {
    names.push_back(*options.weights);
  }
  return names;
}

// The fields of equally named structs have no columns, so the paths through them are searched.
void check_unique(const arrow::Schema& schema, const std::string& file, const std::string& name) {
  for (size_t end = name.size(); end != std::string::npos && end > 0;
       end = name.rfind('.', end - 1)) {
    const std::string part = name.substr(0, end);
    const size_t num_columns = schema.GetAllFieldIndices(part).size();
    if (num_columns > 1) {
      TENON_FAIL(TENON_INVALID,
                 "columnar.no_column",
                 file,
                 ": ",
                 num_columns,
                 " columns are named ",
                 json_string(part));
    }
    if (num_columns == 1) {
      return;
    }
  }
}

std::vector<std::string> sources_in(const ColumnOptions& options,
                                    const arrow::Schema& schema,
                                    const std::string& file) {
  std::vector<std::string> sources;
  for (const std::string& name : named_sources(options)) {
    const auto [first, last] = range_of(name);
    if (options.columns.empty() || first.empty() || schema.GetFieldIndex(name) >= 0) {
      if (options.absent == Absent::kError) {
        index_in(schema, file, name);
      }
      check_unique(schema, file, name);
      sources.push_back(name);
      continue;
    }
    const int begin = index_in(schema, file, first);
    const int end = index_in(schema, file, last);
    if (end < begin) {
      TENON_FAIL(TENON_INVALID,
                 "columnar.no_column",
                 file,
                 ": the column ",
                 json_string(last),
                 " comes before ",
                 json_string(first));
    }
    for (int i = begin; i <= end; ++i) {
      check_unique(schema, file, schema.field(i)->name());
      sources.push_back(schema.field(i)->name());
    }
  }
  return sources;
}

std::set<std::string> inferred_sources(const ColumnOptions& options, const arrow::Schema& schema) {
  std::set<std::string> names;
  if (options.type != ColumnType::kAuto || options.hash != StringHash::kNone ||
      options.unit != TimeUnit::kAuto) {
    return names;
  }
  for (const std::string& name : named_sources(options)) {
    const auto [first, last] = range_of(name);
    const int begin = schema.GetFieldIndex(first);
    const int end = schema.GetFieldIndex(last);
    names.insert(name);
    for (int i = begin; begin >= 0 && i <= end; ++i) {
      names.insert(schema.field(i)->name());
    }
  }
  return names;
}

ColumnForm form_in(const ColumnOptions& options,
                   const std::vector<std::string>& sources,
                   const arrow::Schema& schema,
                   const std::string& file,
                   const ColumnForm* known) {
  const size_t num_values = sources.size() - (options.weights ? 1 : 0);
  std::optional<ColumnForm> form;
  std::vector<std::shared_ptr<arrow::DataType>> types;
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::shared_ptr<arrow::Field> field = schema.GetFieldByName(sources[i]);
    types.push_back(field == nullptr ? nullptr : field->type());
    if (field == nullptr || i >= num_values) {
      continue;
    }
    const SourceColumn source{
        file, sources[i], *field->type(), shape_of(field->type()), meaning_of(*field), known};
    const ColumnForm here = form_of(options, source, num_values);
    const bool is_known = form && !form->is_type_open;
    if (is_known && !here.is_type_open &&
        (!here.has_shape_of(*form) || !do_agree(options, form->meaning, here.meaning))) {
      source.refuse(concat("its type would be ",
                           name_of(here.type),
                           ", but ",
                           json_string(sources.front()),
                           " in the same field is ",
                           name_of(form->type),
                           "; set `type`"));
    }
    if (!is_known) {
      form = here;
    } else if (form->meaning.kind == ValueKind::kNull) {
      form->meaning = here.meaning;  // the sources so far have nulls only
    }
  }
  if (!form) {
    form = ColumnForm{};
    form->is_type_open = true;
    form->are_levels_open = true;
  }
  form->types = std::move(types);
  form->file = file;
  if (form->is_map &&
      (options.weights || form->list_levels != 1 || form->type == ColumnType::kText)) {
    TENON_FAIL(TENON_INVALID,
               "columnar.wrong_type",
               file,
               ": the column ",
               json_string(sources.front()),
               " is a map: its keys must be ids or numbers, and its values are the weights");
  }
  const std::shared_ptr<arrow::DataType>& weights = form->types.back();
  if (form->has_weights && weights != nullptr && !form->are_levels_open &&
      weights->id() != arrow::Type::NA && !are_weights(*form, weights)) {
    TENON_FAIL(TENON_INVALID,
               "columnar.wrong_type",
               file,
               ": the weights ",
               json_string(sources.back()),
               " of the column ",
               json_string(options.name),
               " are ",
               weights->ToString(),
               "; weights must be one number per list entry");
  }
  return *form;
}

ColumnForm joined(const ColumnOptions& options, const ColumnForm& known, const ColumnForm& here) {
  ColumnForm both = known;
  both.types = joined_types(known, here);
  if (here.are_levels_open) {
    return both;
  }
  if (known.are_levels_open) {
    both = here;
    both.types = joined_types(known, here);
    return both;
  }
  const bool have_equal_lists = known.list_levels == here.list_levels &&
                                known.is_map == here.is_map &&
                                known.has_weights == here.has_weights;
  if (have_equal_lists && (known.is_type_open || here.is_type_open)) {
    both = known.is_type_open ? here : known;
    both.types = joined_types(known, here);
    return both;
  }
  if (have_equal_lists && options.type == ColumnType::kAuto && known.meaning.is_untyped &&
      here.meaning.is_untyped) {
    both.meaning = joined(known.meaning, here.meaning);
    both.type = resolved_type(options, both.meaning);
    both.levels = both.list_levels + (both.type == ColumnType::kText ? 1 : 0);
    return both;
  }
  const bool is_parsed = have_equal_lists && here.meaning.is_untyped &&
                         options.type == ColumnType::kAuto && can_parse(here.meaning.kind, known);
  if (!is_parsed && !known.has_shape_of(here)) {
    fail_types(options, known, here, "set `type`, or rewrite one of the files");
  }
  if (!do_agree(options, known.meaning, here.meaning)) {
    const bool are_instants =
        known.meaning.kind == ValueKind::kInstant && here.meaning.kind == ValueKind::kInstant;
    fail_types(options,
               known,
               here,
               are_instants ? "set `unit` to read times without a time zone as UTC"
               : is_number(known.meaning.kind) && is_number(here.meaning.kind)
                   ? "set `type` to read both as numbers"
                   : "rewrite one of the files");
  }
  if (known.meaning.kind == ValueKind::kNull) {
    both.meaning = here.meaning;
  } else if (known.meaning.zone == TimeZone::kAny) {
    both.meaning.zone = here.meaning.zone;
  }
  return both;
}

bool is_in_no_file(const ColumnForm& form) {
  return std::all_of(
      form.types.begin(), form.types.end(), [](const auto& type) { return type == nullptr; });
}

ColumnForm completed(const ColumnOptions& options, ColumnForm form, Later later) {
  if (is_in_no_file(form)) {
    const bool has_type = resolved_type(options, {}) != ColumnType::kAuto;
    if (later == Later::kNone || !has_type) {
      TENON_FAIL(TENON_NOT_FOUND,
                 "columnar.no_column",
                 form.file,
                 ": no column ",
                 json_string(named_sources(options).front()),
                 ", and no other file has it",
                 later == Later::kNone ? "" : "; set `type` to begin before a file has it");
    }
    form.meaning = declared_meaning(options);
  }
  if (form.is_type_open || (form.are_levels_open && (options.weights || options.length))) {
    form.type = resolved_type(options, {});
    if (form.type == ColumnType::kAuto || options.weights || options.length) {
      TENON_FAIL(TENON_INVALID,
                 "columnar.wrong_type",
                 form.file,
                 ": the column ",
                 json_string(options.name),
                 " has no values in any file; set `type`, or give a file with values");
    }
  }
  if (form.type == ColumnType::kIds) {
    check_fill(options);
  }
  form.is_type_open = false;
  form.are_levels_open = false;
  return form;
}

}  // namespace tenon
