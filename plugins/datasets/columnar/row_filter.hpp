// SPDX-License-Identifier: Apache-2.0
//
// Filters rows by conditions on columns. Row group statistics decide if they suffice; otherwise the
// values decide. Texts of files without types (CSV, KEY=VALUE folders) are compared by their
// meaning: the declared type or unit of their column, else the type inferred from all files.
// Invariant: a row group is skipped only if none of its rows matches.
// Threads: const functions from any thread.
#pragma once

#include <tenon/cpp/options.hpp>

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "column_form.hpp"
#include "column_options.hpp"
#include "filter_value.hpp"
#include "value_meaning.hpp"

namespace parquet {
class RowGroupMetaData;
}

namespace tenon {

struct ConditionValue {
  FilterValue value = __int128{0};
};

struct Condition {
  std::string column;
  Comparison op = Comparison::kEqual;
  ConditionValue value;

  static void bind(OptionBinder<Condition>& binder);
};

// Origin of a record batch, for messages: of_row(row) of its rows.
struct RowOrigin;

class RowFilter {
 public:
  using Folders = std::vector<std::pair<std::string, std::optional<std::string>>>;

  // `columns` declare types and units.
  RowFilter(std::vector<Condition> conditions, std::vector<ColumnOptions> columns)
      : conditions_(std::move(conditions)),
        columns_(std::move(columns)),
        known_(conditions_.size()) {}

  bool is_empty() const { return conditions_.empty(); }
  std::vector<std::string> columns() const;
  // For files without types (CSV): the columns of conditions whose types no column declares.
  std::set<std::string> inferred_sources(const arrow::Schema& schema) const;

  // Adds the folders of a file to those that determine what the values of a KEY mean. Requires that
  // no file was checked.
  void add_folders(const Folders& folders);
  // Ends the sequence of files that determine what a column means.
  //
  // Errors   columnar.wrong_type, naming a column whose values have another type than its condition
  void resolve();

  // Checks that each column exists, that its type is comparable with the condition's value, and
  // that it means the same as in earlier files. A file may lack a column whose options allow that.
  //
  // Errors   columnar.no_column, columnar.wrong_type
  void check(const arrow::Schema& schema, const std::string& file) const;

  // Clears keep[i] for rows that do not match. A null never matches.
  //
  // Errors   columnar.bad_value, columnar.bad_offsets
  void apply(const arrow::RecordBatch& batch,
             const RowOrigin& origin,
             std::vector<char>& keep) const;

  // False if the statistics of a Parquet row group exclude all its rows. Requires check().
  bool may_fit(const parquet::RowGroupMetaData& group) const;
  // False if the value of a partition folder does not match. No value is a null.
  //
  // Errors   columnar.wrong_type
  bool fits_partition(const std::string& key,
                      const std::optional<std::string>& value,
                      const std::string& file) const;

 private:
  // What the options of all columns that read a source say about it.
  struct Declared {
    TimeUnit unit = TimeUnit::kAuto;
    ColumnType type = ColumnType::kAuto;  // kText if every column hashes it
    bool may_be_absent = false;

    bool has_type() const { return unit != TimeUnit::kAuto || type != ColumnType::kAuto; }
  };

  struct Known {
    Declared declared;
    // Of files with types, if there is one; else of the texts of all files.
    ValueMeaning meaning;
    TextMeaning in_folders;
    std::string type;
    std::string file;
  };

  Declared declared_in(const arrow::Schema& schema, const std::string& source) const;
  [[noreturn]] void fail_value(size_t i,
                               const std::string& file,
                               const std::string& what,
                               const std::string& advice) const;
  void check_known(size_t i,
                   const Declared& declared,
                   const ValueMeaning& meaning,
                   const arrow::Field& field,
                   const std::string& file) const;
  void check_agrees(const Known& known,
                    const ValueMeaning& meaning,
                    const arrow::Field& field,
                    const std::string& file) const;
  void check_value(size_t i) const;
  // What the texts of files without types mean.
  ValueMeaning meaning_of_texts(size_t i) const;
  // The value to compare with: a time in nanoseconds, a number, or a text; none if values of this
  // meaning cannot be compared with it.
  std::optional<FilterValue> wanted(size_t i, const ValueMeaning& meaning) const;

  std::vector<Condition> conditions_;
  std::vector<ColumnOptions> columns_;
  mutable std::mutex mutex_;  // guards the next members
  bool is_resolved_ = false;
  mutable std::vector<Known> known_;  // per condition
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
