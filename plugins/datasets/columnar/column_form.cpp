// SPDX-License-Identifier: Apache-2.0
#include "column_form.hpp"

#include <tenon/cpp/options.hpp>

#include <algorithm>
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
  const std::vector<int> all = schema.GetAllFieldIndices(name);
  if (all.empty()) {
    TENON_FAIL(TENON_NOT_FOUND,
               "columnar.no_column",
               file,
               ": no column ",
               json_string(name),
               "; the file has ",
               columns_text(schema));
  }
  if (all.size() > 1) {
    TENON_FAIL(TENON_INVALID,
               "columnar.no_column",
               file,
               ": ",
               all.size(),
               " columns are named ",
               json_string(name));
  }
  return all.front();
}

// One source column: its field in the file, for checks and messages.
struct SourceColumn {
  const std::string& file;
  const std::string& name;
  const arrow::DataType& type;
  ArrayShape shape;

  [[noreturn]] void refuse(const std::string& why) const {
    TENON_FAIL(TENON_INVALID,
               "columnar.wrong_type",
               file,
               ": the column ",
               json_string(name),
               " is ",
               type.ToString(),
               "; ",
               why);
  }
};

ColumnType resolved_type(const ColumnOptions& options, const arrow::DataType& leaf) {
  if (options.type != ColumnType::kAuto) {
    return options.type;
  }
  return options.hash != StringHash::kNone || holds_whole_numbers(leaf) ? ColumnType::kIds
         : holds_numbers(leaf)                                          ? ColumnType::kF32
                                                                        : ColumnType::kText;
}

void check_values(const ColumnOptions& options, const SourceColumn& source, ColumnType type) {
  const arrow::DataType& leaf = *source.shape.leaf;
  const bool is_hashed = options.hash != StringHash::kNone;
  if (type == ColumnType::kText && !holds_strings(leaf)) {
    source.refuse("type text requires strings");
  }
  if (is_hashed && !holds_strings(leaf)) {
    source.refuse("`hash` requires strings");
  }
  if (type == ColumnType::kIds && !is_hashed && !holds_whole_numbers(leaf)) {
    source.refuse(holds_strings(leaf) ? "set `hash` to convert strings to ids"
                                      : "ids must be integers or hashed strings");
  }
  if ((type == ColumnType::kF32 || type == ColumnType::kF64) && !holds_numbers(leaf)) {
    source.refuse(concat("type ", name_of(type), " requires numbers"));
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
  const ColumnType type = resolved_type(options, *source.shape.leaf);
  check_values(options, source, type);
  check_lists(options, source, type);
  const ArrayShape& shape = source.shape;
  const int64_t width = options.length ? *options.length : shape.list_size.value_or(0);
  const bool is_fixed = width > 0 && type != ColumnType::kText && !options.weights;
  return {.levels = is_fixed ? 0 : shape.levels + (type == ColumnType::kText ? 1 : 0),
          .list_levels = shape.levels,
          .width = !options.columns.empty() ? static_cast<int64_t>(num_values)
                   : is_fixed               ? width
                                            : 0,
          .type = type,
          .has_weights = shape.is_map || options.weights.has_value(),
          .is_map = shape.is_map};
}

bool are_weights(const ColumnForm& form, const std::shared_ptr<arrow::DataType>& type) {
  if (form.is_map) {
    return holds_numbers(*static_cast<const arrow::MapType&>(*type).item_type());
  }
  const ArrayShape shape = shape_of(type);
  return form.levels == 1 && shape.levels == 1 && !shape.is_map && holds_numbers(*shape.leaf);
}

}  // namespace

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

std::vector<std::string> sources_in(const ColumnOptions& options,
                                    const arrow::Schema& schema,
                                    const std::string& file) {
  std::vector<std::string> sources;
  for (const std::string& name : named_sources(options)) {
    const auto [first, last] = range_of(name);
    if (options.columns.empty() || first.empty() || schema.GetFieldIndex(name) >= 0) {
      index_in(schema, file, name);
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
      sources.push_back(schema.field(i)->name());
    }
  }
  return sources;
}

ColumnForm form_in(const ColumnOptions& options,
                   const std::vector<std::string>& sources,
                   const arrow::Schema& schema,
                   const std::string& file) {
  const auto type_of = [&](const std::string& name) {
    return schema.field(schema.GetFieldIndex(name))->type();
  };
  const size_t num_values = sources.size() - (options.weights ? 1 : 0);
  ColumnForm form;
  for (size_t i = 0; i < num_values; ++i) {
    const std::shared_ptr<arrow::DataType> type = type_of(sources[i]);
    const SourceColumn source{file, sources[i], *type, shape_of(type)};
    const ColumnForm here = form_of(options, source, num_values);
    if (i > 0 && !(here == form)) {
      source.refuse(concat("its type would be ",
                           name_of(here.type),
                           ", but ",
                           json_string(sources.front()),
                           " in the same field is ",
                           name_of(form.type),
                           "; set `type`"));
    }
    form = here;
  }
  if (form.is_map && (options.weights || form.list_levels != 1 || form.type == ColumnType::kText)) {
    TENON_FAIL(TENON_INVALID,
               "columnar.wrong_type",
               file,
               ": the column ",
               json_string(sources.front()),
               " is a map: its keys must be ids or numbers, and its values are the weights");
  }
  if (form.has_weights && !are_weights(form, type_of(sources.back()))) {
    TENON_FAIL(TENON_INVALID,
               "columnar.wrong_type",
               file,
               ": the weights ",
               json_string(sources.back()),
               " of the column ",
               json_string(options.name),
               " are ",
               type_of(sources.back())->ToString(),
               "; weights must be one number per list entry");
  }
  return form;
}

}  // namespace tenon
