// SPDX-License-Identifier: Apache-2.0
#include "host/embedding/row_file.hpp"

#include "host/embedding/parquet_footer.hpp"
#include "host/embedding/parquet_module.hpp"
#include "host/error/error.hpp"
#include "host/io/durable_file.hpp"
#include "host/io/export_target.hpp"
#include "host/tensor/dtype.hpp"
#include "host/text/formatted.hpp"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <span>
#include <system_error>
#include <utility>

namespace tenon {
namespace {

constexpr size_t kRowsOfGroup = 65'536;

[[noreturn]] void bad_file(const std::filesystem::path& file, const std::string& what) {
  throw Error("table.bad_file", file.string() + " " + what);
}

// Calls `body`, and converts errors of the module and of the disk to table.bad_file.
template <class Body>
auto with_file(const std::filesystem::path& file, const std::string& failure, Body body)
    -> decltype(body()) {
  try {
    return body();
  } catch (const DiskError& error) {
    bad_file(file, failure + ": " + error.message());
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    bad_file(file, failure + ": " + error.what());
  }
}

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Returns the dtype of the column for a field of `dtype`. Narrower floats are widened.
uint32_t column_dtype(uint32_t dtype) {
  return dtype == TENON_F64 || dtype == TENON_I32 || dtype == TENON_I64 ? dtype
                                                                        : uint32_t{TENON_F32};
}

void append_numbers(std::string& bytes, uint32_t dtype, const void* from, size_t n) {
  if (dtype == TENON_BF16 || dtype == TENON_F16) {
    for (size_t i = 0; i < n; ++i) {
      append(bytes,
             dtype == TENON_BF16 ? static_cast<float>(static_cast<const c10::BFloat16*>(from)[i])
                                 : static_cast<float>(static_cast<const c10::Half*>(from)[i]));
    }
  } else {
    bytes.append(static_cast<const char*>(from), n * parquet_number_size(column_dtype(dtype)));
  }
}

void store_numbers(uint32_t dtype, const char* from, size_t n, void* to) {
  if (dtype == TENON_BF16 || dtype == TENON_F16) {
    for (size_t i = 0; i < n; ++i) {
      float x = 0;
      std::memcpy(&x, from + i * sizeof x, sizeof x);
      if (dtype == TENON_BF16) {
        static_cast<c10::BFloat16*>(to)[i] = c10::BFloat16(x);
      } else {
        static_cast<c10::Half*>(to)[i] = c10::Half(x);
      }
    }
  } else {
    std::memcpy(to, from, n * parquet_number_size(column_dtype(dtype)));
  }
}

double number_at(uint32_t dtype, const char* at) {
  const auto as = [&]<class T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(value);
  };
  switch (dtype) {
    case TENON_I32:
      return as(int32_t{});
    case TENON_I64:
      return as(int64_t{});
    case TENON_F32:
      return as(float{});
    default:
      return as(double{});
  }
}

double unsigned_at(const char* at) {
  uint64_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

// A file that appears under its name only when it is complete, and then survives a power failure.
class PartialFile {
 public:
  // Errors  export.in_use if another process writes the file; DiskError
  explicit PartialFile(const std::filesystem::path& file) : target_(file.string()) {}
  ~PartialFile() {
    std::error_code ignored;
    std::filesystem::remove(path(), ignored);  // if it was not completed
  }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  const std::string& path() const { return target_.temporary(); }
  // Errors  DiskError
  void complete() { publish_file(path(), target_.path()); }

 private:
  ExportTarget target_;
};

// A file of rows that is open for reading.
class OpenRows {
 public:
  explicit OpenRows(std::filesystem::path file) : file_(std::move(file)) {
    if (const std::string problem = parquet_footer_problem(file_); !problem.empty()) {
      bad_file(file_, problem);
    }
    reader_ = call([this] { return load_parquet_module().open(file_.string()); });
  }

  const std::vector<ParquetColumn>& columns() const { return reader_->columns(); }
  std::optional<size_t> find(const std::string& name) const {
    const auto found = std::ranges::find(columns(), name, &ParquetColumn::name);
    return found == columns().end() ? std::nullopt
                                    : std::optional(static_cast<size_t>(found - columns().begin()));
  }
  size_t num_groups() const { return reader_->num_groups(); }

  std::string numbers(size_t group, size_t column) {
    return call([&] { return reader_->numbers(group, column); });
  }
  // Returns "" for a column that the file lacks.
  std::string numbers(size_t group, std::optional<size_t> column) {
    return column.has_value() ? numbers(group, *column) : "";
  }

  std::vector<int64_t> ids(size_t group) {
    const std::optional<size_t> column = find("id");
    const uint32_t dtype = column ? columns()[*column].dtype : uint32_t{TENON_F32};
    if ((dtype != TENON_I64 && dtype != TENON_I32) || columns()[*column].width != 0) {
      bad_file(file_, "has no column 'id' of integers");
    }
    const std::string bytes = numbers(group, *column);
    if (dtype == TENON_I32) {
      std::vector<int32_t> narrow(bytes.size() / sizeof(int32_t));
      std::memcpy(narrow.data(), bytes.data(), bytes.size());
      return {narrow.begin(), narrow.end()};
    }
    std::vector<int64_t> ids(bytes.size() / sizeof(int64_t));
    std::memcpy(ids.data(), bytes.data(), bytes.size());
    if (columns()[*column].is_unsigned) {
      check_fit(ids, group);
    }
    return ids;
  }

  // Returns numbers of f32 or f64, one list of `width` per row, as f32.
  std::vector<float> vectors(size_t group, size_t column) {
    const ParquetColumn& info = columns()[column];
    const std::string bytes = numbers(group, column);
    std::vector<float> out(bytes.size() / info.number_size());
    for (size_t i = 0; i < out.size(); ++i) {
      const double number = number_at(info.dtype, bytes.data() + i * info.number_size());
      out[i] = static_cast<float>(number);
      if (!std::isfinite(out[i])) {
        bad_file(file_,
                 formatted("has {} in column '{}', in row {} of row group {}, counted from 0; a "
                           "row of a table has finite numbers of f32",
                           number,
                           info.name,
                           i / std::max<size_t>(info.numbers(), 1),
                           group));
      }
    }
    return out;
  }

 private:
  // Throws table.bad_file if one of the unsigned ids does not fit int64.
  void check_fit(const std::vector<int64_t>& ids, size_t group) const {
    const auto found = std::ranges::find_if(ids, [](int64_t id) { return id < 0; });
    if (found != ids.end()) {
      bad_file(file_,
               formatted("has the id {} in row {} of row group {}, counted from 0 (expected at "
                         "most {}); write ids of int64",
                         static_cast<uint64_t>(*found),
                         found - ids.begin(),
                         group,
                         INT64_MAX));
    }
  }

  template <class Body>
  auto call(Body body) -> decltype(body()) {
    return with_file(file_, "cannot be read", body);
  }

  std::filesystem::path file_;
  std::unique_ptr<ParquetReader> reader_;
};

// A field that a file stores for each row in addition to the value.
struct ExtraField {
  ParquetColumn column;
  uint32_t dtype;  // of the field; may be narrower than the column's
  int32_t offset;
};

std::vector<ExtraField> extra_fields(const Table& table) {
  const TableSpec& spec = table.spec();
  const tenon_row_layout& layout = table.layout();
  std::vector<ExtraField> extras;
  if (spec.has_master) {
    extras.push_back({{"master", TENON_F32, spec.dim}, TENON_F32, layout.master_offset});
  }
  for (size_t s = 0; s < spec.slots.size(); ++s) {
    const RowSlot& slot = spec.slots[s];
    extras.push_back(
        {{"slot." + slot.name, column_dtype(slot.dtype), slot.is_scalar ? 0 : spec.dim},
         slot.dtype,
         layout.slot_offsets[s]});
  }
  return extras;
}

// The numbers of a table's rows, column by column.
class RowsToWrite {
 public:
  RowsToWrite(const Table& table, RowParts parts) : table_(table), parts_(parts) {
    columns_ = {{"id", TENON_I64, 0}, {"vector", TENON_F32, table.spec().dim}};
    if (parts == RowParts::kAll) {
      columns_.push_back({"count", TENON_I64, 0});
      columns_.push_back({"last_step", TENON_I64, 0});
      extras_ = extra_fields(table);
      for (const ExtraField& extra : extras_) {
        columns_.push_back(extra.column);
      }
    }
  }

  const std::vector<ParquetColumn>& columns() const { return columns_; }

  std::vector<std::string> numbers_of(std::span<const int64_t> ids) const {
    const size_t dim = table_.spec().dim;
    std::vector<int64_t> rows(ids.size());
    std::vector<float> values(ids.size() * dim);
    table_.find(ids, rows);
    table_.read(rows, values.data(), static_cast<int64_t>(dim));
    std::vector<std::string> numbers(columns_.size());
    append_numbers(numbers[0], TENON_I64, ids.data(), ids.size());
    append_numbers(numbers[1], TENON_F32, values.data(), values.size());
    for (size_t i = 0; parts_ == RowParts::kAll && i < rows.size(); ++i) {
      const Table::RowInfo info = table_.info(rows[i]);
      append(numbers[2], info.count);
      append(numbers[3], info.last_step);
      for (size_t e = 0; e < extras_.size(); ++e) {
        append_numbers(numbers[4 + e],
                       extras_[e].dtype,
                       tenon_row_field(&table_.layout(), rows[i], extras_[e].offset),
                       extras_[e].column.numbers());
      }
    }
    return numbers;
  }

 private:
  const Table& table_;
  RowParts parts_;
  std::vector<ParquetColumn> columns_;
  std::vector<ExtraField> extras_;
};

// Reads the columns of a file that match a table, and converts them to rows.
class RowsToRead {
 public:
  RowsToRead(Table& table, const std::filesystem::path& file)
      : table_(table), file_(file), in_(file) {
    const std::optional<size_t> vector = in_.find("vector");
    if (!vector) {
      bad_file(file_, "has no column 'vector', a list of floats");
    }
    vector_ = in_.columns()[*vector].dtype == TENON_F64
                  ? checked(*vector, TENON_F64, table.spec().dim)
                  : checked(*vector, TENON_F32, table.spec().dim);
    count_ = checked_if_any("count", TENON_I64, 0);
    last_step_ = checked_if_any("last_step", TENON_I64, 0);
    for (const ExtraField& extra : extra_fields(table)) {
      const ParquetColumn& column = extra.column;
      if (const auto found = checked_if_any(column.name, column.dtype, column.width)) {
        extras_.push_back({*found, extra});
      }
    }
  }

  size_t num_groups() const { return in_.num_groups(); }

  // Puts the wanted rows of a group into the table. Returns their number.
  int64_t take(size_t group, const std::function<bool(int64_t)>& is_wanted) {
    const std::vector<int64_t> ids = in_.ids(group);
    const std::vector<float> values = in_.vectors(group, vector_);
    const std::string counts = in_.numbers(group, count_);
    const std::string steps = in_.numbers(group, last_step_);
    std::vector<std::string> numbers;
    for (const Found& extra : extras_) {
      numbers.push_back(in_.numbers(group, extra.column));
    }
    const size_t dim = table_.spec().dim;
    int64_t taken = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (!is_wanted(ids[i])) {
        continue;
      }
      Table::RowInfo info;
      if (!counts.empty()) {
        std::memcpy(&info.count, counts.data() + i * sizeof info.count, sizeof info.count);
      }
      if (!steps.empty()) {
        std::memcpy(
            &info.last_step, steps.data() + i * sizeof info.last_step, sizeof info.last_step);
      }
      int64_t row = kNoRow;
      table_.renew({&ids[i], 1}, {&info, 1}, {&row, 1});
      table_.write({&row, 1}, values.data() + i * dim, static_cast<int64_t>(dim));
      for (size_t e = 0; e < extras_.size(); ++e) {
        const ParquetColumn& column = extras_[e].field.column;
        store_numbers(extras_[e].field.dtype,
                      numbers[e].data() + i * column.numbers() * column.number_size(),
                      column.numbers(),
                      tenon_row_field(&table_.layout(), row, extras_[e].field.offset));
      }
      ++taken;
    }
    return taken;
  }

 private:
  struct Found {
    size_t column;
    ExtraField field;
  };

  size_t checked(size_t index, uint32_t dtype, size_t width) const {
    const ParquetColumn& column = in_.columns()[index];
    if (in_.num_groups() > 0 && column.dtype != dtype) {
      bad_file(file_,
               formatted("has {} in column '{}' where table '{}' has {}",
                         dtype_name(column.dtype),
                         column.name,
                         table_.spec().name,
                         dtype_name(dtype)));
    }
    if (in_.num_groups() > 0 && column.width != width) {
      bad_file(file_,
               formatted("has rows of {} in column '{}' where table '{}' has {}; import it into a "
                         "table of the same dim and optimizer",
                         column.width,
                         column.name,
                         table_.spec().name,
                         width));
    }
    return index;
  }
  std::optional<size_t> checked_if_any(const std::string& name,
                                       uint32_t dtype,
                                       size_t width) const {
    const std::optional<size_t> index = in_.find(name);
    return index ? std::optional(checked(*index, dtype, width)) : std::nullopt;
  }

  Table& table_;
  const std::filesystem::path& file_;
  OpenRows in_;
  size_t vector_ = 0;
  std::optional<size_t> count_;
  std::optional<size_t> last_step_;
  std::vector<Found> extras_;
};

// Returns row `i` of a group: the numbers of each column except the id.
std::vector<RowColumn> row_at(OpenRows& in, size_t group, size_t i) {
  std::vector<RowColumn> row;
  for (size_t c = 0; c < in.columns().size(); ++c) {
    const ParquetColumn& column = in.columns()[c];
    if (column.name == "id") {
      continue;
    }
    const std::string numbers = in.numbers(group, c);
    row.push_back({column.name, {}, column.width > 0});
    for (size_t k = 0; k < column.numbers(); ++k) {
      const size_t at = (i * column.numbers() + k) * column.number_size();
      row.back().numbers.push_back(column.is_unsigned
                                       ? unsigned_at(numbers.data() + at)
                                       : number_at(column.dtype, numbers.data() + at));
    }
  }
  return row;
}

}  // namespace

void write_rows(const Table& table, RowParts parts, const std::filesystem::path& file) {
  const RowsToWrite rows(table, parts);
  // Groups of wide rows have fewer rows: at most 256 MiB at 8 bytes per element of the value.
  const size_t rows_of_group =
      std::clamp<size_t>((size_t{256} << 20) / (8 * table.spec().dim), 1, kRowsOfGroup);
  const ParquetModule& module = load_parquet_module();
  with_file(file, "cannot be written; give a folder that exists, is writable and has room", [&] {
    PartialFile partial(file);
    const auto out = module.create(partial.path(), rows.columns());
    const std::vector<int64_t> ids = table.ids();
    for (size_t begin = 0; begin < ids.size(); begin += rows_of_group) {
      const size_t n = std::min(rows_of_group, ids.size() - begin);
      out->add_group(n, rows.numbers_of(std::span(ids).subspan(begin, n)));
    }
    out->finish();
    partial.complete();
  });
}

int64_t read_rows(Table& table,
                  const std::filesystem::path& file,
                  const std::function<bool(int64_t)>& is_wanted) {
  RowsToRead rows(table, file);
  int64_t taken = 0;
  for (size_t group = 0; group < rows.num_groups(); ++group) {
    taken += rows.take(group, table.spec().with_rows(is_wanted));
  }
  return taken;
}

std::optional<std::vector<RowColumn>> find_row(const std::filesystem::path& file, int64_t id) {
  OpenRows in(file);
  for (size_t group = 0; group < in.num_groups(); ++group) {
    // Files of other programs may not be sorted by id.
    const std::vector<int64_t> ids = in.ids(group);
    const auto found = std::ranges::find(ids, id);
    if (found != ids.end()) {
      return row_at(in, group, static_cast<size_t>(found - ids.begin()));
    }
  }
  return std::nullopt;
}

}  // namespace tenon
