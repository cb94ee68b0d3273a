// SPDX-License-Identifier: Apache-2.0
#include "csv_fields.hpp"

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

constexpr size_t kMostNamesShown = 12;
constexpr size_t kLongestText = 40;
constexpr std::string_view kRangeMark = "..";

const char* words_for(CsvDtype dtype) {
  switch (dtype) {
    case CsvDtype::kI64:
      return "an integer (i64)";
    case CsvDtype::kF32:
      return "a number (f32)";
    case CsvDtype::kF64:
      break;
  }
  return "a number (f64)";
}

// A text of the file for messages: shortened, and safe to print on one line.
std::string shown(const CsvField& field) {
  std::string text = csv_field_text(field);
  if (text.size() > kLongestText) {
    text.resize(kLongestText);
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0x80) != 0) {
      text.pop_back();  // do not cut a multi-byte character
    }
    text += "...";
  }
  return json_string(text);
}

std::string column_list(const std::vector<std::string>& columns) {
  std::string text;
  for (size_t i = 0; i < columns.size() && i < kMostNamesShown; ++i) {
    text += (i == 0 ? "" : ", ") + json_string(columns[i]);
  }
  if (columns.size() > kMostNamesShown) {
    text += concat(" and ", columns.size() - kMostNamesShown, " more");
  }
  return text;
}

std::optional<size_t> find_column(const CsvTable& table, const std::string& name) {
  const std::vector<std::string>& columns = table.columns();
  const auto found = std::find(columns.begin(), columns.end(), name);
  if (found == columns.end()) {
    return std::nullopt;
  }
  if (std::find(found + 1, columns.end(), name) != columns.end()) {
    TENON_FAIL(TENON_INVALID,
               "csv.no_column",
               table.path(),
               ": two columns are named ",
               json_string(name),
               "; a column name must be unique to be used");
  }
  return static_cast<size_t>(found - columns.begin());
}

[[noreturn]] void fail_no_column(const CsvTable& table,
                                 const std::string& field,
                                 const std::string& name) {
  TENON_FAIL(
      TENON_NOT_FOUND,
      "csv.no_column",
      table.path(),
      ": no column ",
      json_string(name),
      ", which the field ",
      json_string(field),
      " reads; the file has ",
      column_list(table.columns()),
      "; for a file without a header, set `header` to false and name columns \"0\", \"1\", ...");
}

// Adds the columns of a name: "a" is one column, "a..d" is the range from a to d in file order.
void add_columns(const CsvTable& table,
                 const std::string& field,
                 const std::string& name,
                 std::vector<size_t>& out) {
  if (const std::optional<size_t> column = find_column(table, name)) {
    out.push_back(*column);
    return;
  }
  const size_t mark = name.find(kRangeMark);
  if (mark == std::string::npos) {
    fail_no_column(table, field, name);
  }
  size_t ends[2];
  const std::string names[2] = {name.substr(0, mark), name.substr(mark + kRangeMark.size())};
  for (size_t i = 0; i < 2; ++i) {
    const std::optional<size_t> column = find_column(table, names[i]);
    if (!column) {
      fail_no_column(table, field, names[i]);
    }
    ends[i] = *column;
  }
  if (ends[0] > ends[1]) {
    TENON_FAIL(TENON_INVALID,
               "csv.no_column",
               table.path(),
               ": the field ",
               json_string(field),
               " reads the columns ",
               json_string(name),
               ", but in the file ",
               json_string(names[0]),
               " comes after ",
               json_string(names[1]));
  }
  for (size_t column = ends[0]; column <= ends[1]; ++column) {
    out.push_back(column);
  }
}

}  // namespace

void CsvFieldOptions::bind(OptionBinder<CsvFieldOptions>& binder) {
  binder.field("name", &CsvFieldOptions::name)
      .required()
      .non_empty()
      .doc("field name in the batch");
  binder.field("column", &CsvFieldOptions::column)
      .non_empty()
      .doc("source column, read as [B]; null: same as `name`");
  binder.field("columns", &CsvFieldOptions::columns)
      .non_empty()
      .doc("instead of `column`: columns to read as [B, n]; \"a..d\" is the range from a to d");
  binder
      .choice("dtype",
              &CsvFieldOptions::dtype,
              {{"i64", CsvDtype::kI64}, {"f32", CsvDtype::kF32}, {"f64", CsvDtype::kF64}})
      .doc("value type");
  binder
      .choice("missing",
              &CsvFieldOptions::missing,
              {{"error", CsvMissing::kError},
               {"fill", CsvMissing::kFill},
               {"skip_row", CsvMissing::kSkipRow}})
      .doc("policy for missing values: fail, use `fill`, or skip the row");
  binder.field("fill", &CsvFieldOptions::fill).doc("value that replaces a missing one");
  binder.field("min", &CsvFieldOptions::min).doc("smallest allowed value; null: no limit");
  binder.field("max", &CsvFieldOptions::max).doc("largest allowed value; null: no limit");
}

void check_csv_field(const CsvFieldOptions& options) {
  const std::string name = json_string(options.name);
  if (options.column && !options.columns.empty()) {
    TENON_FAIL(TENON_INVALID,
               "csv.bad_field",
               "the field ",
               name,
               " has both `column` and `columns`; set only one");
  }
  if (options.missing == CsvMissing::kFill && options.dtype == CsvDtype::kI64 &&
      (options.fill != std::floor(options.fill) || std::fabs(options.fill) > 9007199254740992.0)) {
    TENON_FAIL(TENON_INVALID,
               "csv.bad_field",
               "the field ",
               name,
               " has dtype i64, but `fill` is ",
               options.fill);
  }
  if (options.min && options.max && *options.min > *options.max) {
    TENON_FAIL(TENON_INVALID,
               "csv.bad_field",
               "the field ",
               name,
               " has `min` ",
               *options.min,
               ", which is above `max` ",
               *options.max);
  }
}

CsvFieldReader::CsvFieldReader(const CsvFieldOptions& options,
                               const std::vector<std::string>& marks,
                               const CsvTable& table)
    : options_(options), marks_(marks) {
  if (options.columns.empty()) {
    const std::string& name = options.column ? *options.column : options.name;
    const std::optional<size_t> column = find_column(table, name);
    if (!column) {
      fail_no_column(table, options.name, name);
    }
    columns_.push_back(*column);
  }
  for (const std::string& name : options.columns) {
    add_columns(table, options.name, name, columns_);
  }
}

bool CsvFieldReader::skips(const CsvRow& row) const {
  return options_.missing == CsvMissing::kSkipRow &&
         std::any_of(columns_.begin(), columns_.end(), [&](size_t column) {
           return is_missing(row.fields[column].text);
         });
}

void CsvFieldReader::read(const CsvTable& table, const CsvRow& row, void* out) const {
  switch (options_.dtype) {
    case CsvDtype::kI64:
      return read_as(table, row, static_cast<int64_t*>(out));
    case CsvDtype::kF32:
      return read_as(table, row, static_cast<float*>(out));
    case CsvDtype::kF64:
      return read_as(table, row, static_cast<double*>(out));
  }
}

bool CsvFieldReader::is_missing(std::string_view text) const {
  text = trim_csv_blanks(text);
  return text.empty() || std::find(marks_.begin(), marks_.end(), text) != marks_.end();
}

template <typename T>
void CsvFieldReader::read_as(const CsvTable& table, const CsvRow& row, T* out) const {
  for (const size_t column : columns_) {
    const std::string_view text = row.fields[column].text;
    T value{};
    const CsvNumber result = parse_csv_number(text, value);
    // A missing mark may itself be a number ("-999").
    if ((result != CsvNumber::kGood || !marks_.empty()) && is_missing(text)) {
      if (options_.missing != CsvMissing::kFill) {
        fail_missing(table, row, column);
      }
      *out++ = static_cast<T>(options_.fill);
      continue;
    }
    if (result != CsvNumber::kGood) {
      fail_value(table, row, column, result);
    }
    const auto number = static_cast<long double>(value);
    if ((options_.min && number < *options_.min) || (options_.max && number > *options_.max)) {
      fail_range(table, row, column);
    }
    *out++ = value;
  }
}

void CsvFieldReader::fail_missing(const CsvTable& table, const CsvRow& row, size_t column) const {
  TENON_FAIL(TENON_INVALID,
             "csv.missing",
             table.place_of(row.offset),
             "column ",
             json_string(table.columns()[column]),
             ": missing value (",
             shown(row.fields[column]),
             "); set `missing` of the field ",
             json_string(options_.name),
             " to \"fill\" or \"skip_row\" to accept missing values");
}

void CsvFieldReader::fail_value(const CsvTable& table,
                                const CsvRow& row,
                                size_t column,
                                CsvNumber problem) const {
  const char* what = " is not ";
  const char* hint = "";
  if (problem == CsvNumber::kOutOfRange) {
    what = " is too large for ";
  } else if (problem == CsvNumber::kFraction) {
    hint = "; check the field's `dtype`";
  } else if (problem == CsvNumber::kNonFinite) {
    hint = "; add it to `missing_marks` if it means a missing value";
  } else if (table.is_unnamed_start(row.offset)) {
    hint = "; if the first row has names, set `header` to true";
  }
  TENON_FAIL(TENON_INVALID,
             problem == CsvNumber::kOutOfRange ? "csv.out_of_range" : "csv.value",
             table.place_of(row.offset),
             "column ",
             json_string(table.columns()[column]),
             ": ",
             shown(row.fields[column]),
             what,
             words_for(options_.dtype),
             hint);
}

void CsvFieldReader::fail_range(const CsvTable& table, const CsvRow& row, size_t column) const {
  std::string limits = options_.min ? concat("at least ", *options_.min) : std::string();
  if (options_.max) {
    limits += concat(limits.empty() ? "" : " and ", "at most ", *options_.max);
  }
  TENON_FAIL(TENON_INVALID,
             "csv.out_of_range",
             table.place_of(row.offset),
             "column ",
             json_string(table.columns()[column]),
             ": ",
             shown(row.fields[column]),
             " is out of range; the field ",
             json_string(options_.name),
             " allows ",
             limits);
}

}  // namespace tenon
