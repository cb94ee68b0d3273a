// SPDX-License-Identifier: Apache-2.0

#include "host/embedding/row_file.hpp"

#include "host/embedding/compact_thrift.hpp"
#include "host/error/error.hpp"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <set>
#include <span>
#include <string_view>
#include <system_error>

namespace tenon {
namespace {

constexpr std::string_view kMagic = "PAR1";
constexpr size_t kRowsOfGroup = 65'536;

// Numbers of the format.
constexpr int32_t kInt32 = 1;
constexpr int32_t kInt64 = 2;
constexpr int32_t kFloat = 4;
constexpr int32_t kDouble = 5;
constexpr int32_t kRequired = 0;
constexpr int32_t kRepeated = 2;
constexpr int32_t kConvertedList = 3;
constexpr int32_t kPlain = 0;
constexpr int32_t kRle = 3;
constexpr int32_t kUncompressed = 0;
constexpr int32_t kDataPage = 0;

[[noreturn]] void bad_file(const std::filesystem::path& file, const std::string& what) {
  throw Error("table.bad_file", file.string() + " " + what);
}

size_t size_of(int32_t type) {
  return type == kInt32 || type == kFloat ? 4 : 8;
}

// A column of a table: what it is called, of which type, and how many numbers each row has, 0 for
// one that is no list.
struct Column {
  std::string name;
  int32_t type = kFloat;
  size_t width = 0;

  size_t numbers() const { return std::max<size_t>(width, 1); }
};

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// The column's type for a dtype; narrower floats are widened.
int32_t type_for(uint32_t dtype) {
  switch (dtype) {
    case TENON_F64:
      return kDouble;
    case TENON_I32:
      return kInt32;
    case TENON_I64:
      return kInt64;
    default:
      return kFloat;
  }
}

size_t element_size(uint32_t dtype) {
  switch (dtype) {
    case TENON_F64:
    case TENON_I64:
      return 8;
    case TENON_BF16:
    case TENON_F16:
      return 2;
    default:
      return 4;
  }
}

void append_numbers(std::string& bytes, uint32_t dtype, const void* from, size_t n) {
  if (dtype == TENON_BF16 || dtype == TENON_F16) {
    for (size_t i = 0; i < n; ++i) {
      append(bytes,
             dtype == TENON_BF16 ? static_cast<float>(static_cast<const c10::BFloat16*>(from)[i])
                                 : static_cast<float>(static_cast<const c10::Half*>(from)[i]));
    }
  } else {
    bytes.append(static_cast<const char*>(from), n * element_size(dtype));
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
    std::memcpy(to, from, n * element_size(dtype));
  }
}

// A run of one value, in the hybrid of run lengths and packed bits, with its length before it.
std::string levels_of_ones(size_t n) {
  std::string run;
  uint64_t head = uint64_t{n} << 1;
  for (; head >= 128; head >>= 7) {
    run.push_back(static_cast<char>(head | 128));
  }
  run.push_back(static_cast<char>(head));
  run.push_back(1);
  std::string bytes;
  append(bytes, static_cast<uint32_t>(run.size()));
  return bytes + run;
}

// Which numbers begin a list: 0 for the first of each `width`, 1 for the others.
std::string levels_of_lists(size_t rows, size_t width) {
  const size_t groups = (rows * width + 7) / 8;
  std::string run;
  uint64_t head = uint64_t{groups} << 1 | 1;
  for (; head >= 128; head >>= 7) {
    run.push_back(static_cast<char>(head | 128));
  }
  run.push_back(static_cast<char>(head));
  const size_t begin = run.size();
  run.resize(begin + groups, static_cast<char>(0xFF));
  for (size_t i = 0; i < rows * width; i += width) {
    run[begin + i / 8] = static_cast<char>(run[begin + i / 8] & ~(1 << (i % 8)));
  }
  std::string bytes;
  append(bytes, static_cast<uint32_t>(run.size()));
  return bytes + run;
}

struct Chunk {
  int64_t offset = 0;
  int64_t bytes = 0;
};

void put_schema(ThriftWriter& out, const std::vector<Column>& columns) {
  size_t elements = 1;
  for (const Column& column : columns) {
    elements += column.width == 0 ? 1 : 3;
  }
  out.begin_list(2, ThriftType::kStruct, elements);
  out.begin_element();
  out.put_text(4, "rows");
  out.put_i32(5, static_cast<int32_t>(columns.size()));
  out.end();
  for (const Column& column : columns) {
    out.begin_element();
    if (column.width == 0) {
      out.put_i32(1, column.type);
      out.put_i32(3, kRequired);
      out.put_text(4, column.name);
      out.end();
      continue;
    }
    out.put_i32(3, kRequired);
    out.put_text(4, column.name);
    out.put_i32(5, 1);
    out.put_i32(6, kConvertedList);
    out.end();
    out.begin_element();
    out.put_i32(3, kRepeated);
    out.put_text(4, "list");
    out.put_i32(5, 1);
    out.end();
    out.begin_element();
    out.put_i32(1, column.type);
    out.put_i32(3, kRequired);
    out.put_text(4, "element");
    out.end();
  }
}

void put_chunk(ThriftWriter& out, const Column& column, const Chunk& chunk, size_t rows) {
  out.begin_element();
  out.put_i64(2, chunk.offset);
  out.begin_struct(3);
  out.put_i32(1, column.type);
  out.begin_list(2, ThriftType::kI32, 2);
  out.add_i32(kPlain);
  out.add_i32(kRle);
  out.begin_list(3, ThriftType::kBinary, column.width == 0 ? 1 : 3);
  out.add_text(column.name);
  if (column.width > 0) {
    out.add_text("list");
    out.add_text("element");
  }
  out.put_i32(4, kUncompressed);
  out.put_i64(5, static_cast<int64_t>(rows * column.numbers()));
  out.put_i64(6, chunk.bytes);
  out.put_i64(7, chunk.bytes);
  out.put_i64(9, chunk.offset);
  out.end();
  out.end();
}

class Writer {
 public:
  Writer(std::filesystem::path file, std::vector<Column> columns)
      : file_(std::move(file)),
        partial_(file_.string() + ".partial"),
        columns_(std::move(columns)),
        out_(partial_, std::ios::binary | std::ios::trunc) {
    put(kMagic);
  }
  ~Writer() {
    std::error_code ignored;
    std::filesystem::remove(partial_, ignored);  // where it was not finished
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // The numbers of the columns for the next rows, as the format has them.
  void add_group(size_t rows, const std::vector<std::string>& numbers) {
    groups_.push_back({rows, {}});
    for (size_t c = 0; c < columns_.size(); ++c) {
      const Column& column = columns_[c];
      std::string page;
      if (column.width > 0) {
        page = levels_of_lists(rows, column.width) + levels_of_ones(rows * column.width);
      }
      page += numbers[c];
      ThriftWriter head;
      head.put_i32(1, kDataPage);
      head.put_i32(2, static_cast<int32_t>(page.size()));
      head.put_i32(3, static_cast<int32_t>(page.size()));
      head.begin_struct(5);
      head.put_i32(1, static_cast<int32_t>(rows * column.numbers()));
      head.put_i32(2, kPlain);
      head.put_i32(3, kRle);
      head.put_i32(4, kRle);
      head.end();
      const int64_t begin = written_;
      put(head.take());
      put(page);
      groups_.back().chunks.push_back({begin, written_ - begin});
    }
  }

  void finish() {
    ThriftWriter foot;
    foot.put_i32(1, 1);
    put_schema(foot, columns_);
    int64_t all = 0;
    for (const Group& group : groups_) {
      all += static_cast<int64_t>(group.rows);
    }
    foot.put_i64(3, all);
    foot.begin_list(4, ThriftType::kStruct, groups_.size());
    for (const Group& group : groups_) {
      foot.begin_element();
      foot.begin_list(1, ThriftType::kStruct, columns_.size());
      int64_t bytes = 0;
      for (size_t c = 0; c < columns_.size(); ++c) {
        put_chunk(foot, columns_[c], group.chunks[c], group.rows);
        bytes += group.chunks[c].bytes;
      }
      foot.put_i64(2, bytes);
      foot.put_i64(3, static_cast<int64_t>(group.rows));
      foot.end();
    }
    foot.put_text(6, "tenon");
    const std::string footer = foot.take();
    put(footer);
    std::string tail;
    append(tail, static_cast<uint32_t>(footer.size()));
    put(tail);
    put(kMagic);
    out_.close();
    check();
    std::error_code failed;
    std::filesystem::rename(partial_, file_, failed);
    if (failed) {
      bad_file(file_, "cannot be written: " + failed.message());
    }
  }

 private:
  struct Group {
    size_t rows;
    std::vector<Chunk> chunks;
  };

  void put(std::string_view bytes) {
    out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    written_ += static_cast<int64_t>(bytes.size());
    check();
  }
  void check() const {
    if (!out_) {
      bad_file(file_,
               "cannot be written: " + std::string(std::strerror(errno)) +
                   "; give a folder that is there, may be written to, and has room");
    }
  }

  std::filesystem::path file_;
  std::filesystem::path partial_;
  std::vector<Column> columns_;
  std::ofstream out_;
  int64_t written_ = 0;
  std::vector<Group> groups_;
};

constexpr const char* kOtherForm =
    "; write it with version 1 data pages, uncompressed, without dictionaries and nulls";

class FileReader {
 public:
  explicit FileReader(std::filesystem::path file)
      : file_(std::move(file)), in_(file_, std::ios::binary) {
    if (!in_) {
      bad_file(file_, "cannot be read: " + std::string(std::strerror(errno)));
    }
    in_.seekg(0, std::ios::end);
    size_ = static_cast<int64_t>(in_.tellg());
    if (size_ < 12 || read(size_ - 4, 4) != kMagic || read(0, 4) != kMagic) {
      bad_file(file_, "is no complete Parquet file");
    }
    uint32_t length = 0;
    std::memcpy(&length, read(size_ - 8, 4).data(), sizeof length);
    if (length > size_ - 12) {
      bad_file(file_, "is no complete Parquet file");
    }
    const auto footer = read_thrift(read(size_ - 8 - length, length));
    if (!footer) {
      bad_file(file_, "has a damaged end; write it anew");
    }
    footer_ = footer->value;
    read_schema();
    check_groups();
  }

  const std::vector<Column>& columns() const { return columns_; }
  const Column* column(const std::string& name) const {
    const auto found = std::ranges::find(columns_, name, &Column::name);
    return found == columns_.end() ? nullptr : &*found;
  }
  size_t num_groups() const { return groups().size(); }
  size_t rows_of(size_t group) const { return static_cast<size_t>(groups()[group].number_of(3)); }

  // The numbers of a column of a group, one after the other.
  std::string numbers(size_t group, const Column& column) {
    const auto c = static_cast<size_t>(&column - columns_.data());
    const ThriftValue& chunk = *groups()[group].find(1)->elements[chunk_of_[c]].find(3);
    const std::string bytes = read(chunk.number_of(9), chunk.number_of(7));
    const size_t wanted = rows_of(group) * column.numbers() * size_of(column.type);
    std::string numbers;
    for (std::string_view rest = bytes; !rest.empty();) {
      const auto head = read_thrift(rest);
      if (!head) {
        bad_file(file_, "has a damaged column '" + column.name + "'; write it anew");
      }
      const ThriftValue* page = head->value.find(5);
      const int64_t length = head->value.number_of(3);
      rest.remove_prefix(head->bytes);
      if (page == nullptr || head->value.number_of(1) != kDataPage ||
          page->number_of(2) != kPlain) {
        bad_file(file_, "has column '" + column.name + "' in a form that is not read" + kOtherForm);
      }
      if (length < 0 || static_cast<size_t>(length) > rest.size()) {
        bad_file(file_, "has a damaged column '" + column.name + "'; write it anew");
      }
      std::string_view body = rest.substr(0, static_cast<size_t>(length));
      for (int levels = 0; levels < levels_of_[c]; ++levels) {
        uint32_t bytes_of_levels = 0;
        if (body.size() >= sizeof bytes_of_levels) {
          std::memcpy(&bytes_of_levels, body.data(), sizeof bytes_of_levels);
        }
        body.remove_prefix(std::min(body.size(), sizeof bytes_of_levels + bytes_of_levels));
      }
      numbers.append(body);
      rest.remove_prefix(static_cast<size_t>(length));
    }
    if (numbers.size() != wanted) {
      bad_file(file_,
               "has " + std::to_string(numbers.size()) + " bytes in column '" + column.name +
                   "' where " + std::to_string(wanted) +
                   " belong: rows of another length, or nulls" + kOtherForm);
    }
    return numbers;
  }

  const std::filesystem::path& file() const { return file_; }

 private:
  const std::vector<ThriftValue>& groups() const { return footer_.find(4)->elements; }

  std::string read(int64_t offset, int64_t n) {
    if (offset < 0 || n < 0 || n > size_ || offset > size_ - n) {
      bad_file(file_, "ends before what it says it holds; write it anew");
    }
    std::string bytes(static_cast<size_t>(n), '\0');
    in_.clear();
    in_.seekg(offset);
    in_.read(bytes.data(), n);
    if (!in_) {
      bad_file(file_, "cannot be read: " + std::string(std::strerror(errno)));
    }
    return bytes;
  }

  // Numbers, and lists of them, of the outermost level; others are passed over.
  void read_schema() {
    const ThriftValue* schema = footer_.find(2);
    if (schema == nullptr || footer_.find(4) == nullptr) {
      bad_file(file_, "has a damaged end; write it anew");
    }
    size_t chunk = 0;
    size_t at = 1;
    const std::vector<ThriftValue>& elements = schema->elements;
    const auto take = [&](const std::string& name, const ThriftValue& leaf, int levels, bool list) {
      const auto type = static_cast<int32_t>(leaf.number_of(1, -1));
      if (type == kInt32 || type == kInt64 || type == kFloat || type == kDouble) {
        columns_.push_back({name, type, list ? size_t{1} : size_t{0}});
        levels_of_.push_back(levels);
        chunk_of_.push_back(chunk);
      }
      ++chunk;
    };
    // One element and all that lies in it.
    const auto pass = [&](const auto& self, int depth) -> void {
      if (at >= elements.size() || depth > 16) {
        bad_file(file_, "has a damaged end; write it anew");
      }
      const int64_t children = elements[at++].number_of(5);
      chunk += children == 0 ? 1 : 0;
      for (int64_t i = 0; i < children; ++i) {
        self(self, depth + 1);
      }
    };
    while (at < elements.size()) {
      const ThriftValue& element = elements[at];
      const ThriftValue* name = element.find(4);
      const std::string text = name == nullptr ? "" : name->text;
      const auto is_optional = [](const ThriftValue& e) { return e.number_of(3) != kRequired; };
      if (element.number_of(5) == 0) {
        take(text, element, is_optional(element) ? 1 : 0, false);
        ++at;
      } else if (element.number_of(6, -1) == kConvertedList && at + 2 < elements.size() &&
                 elements[at + 1].number_of(5) == 1 && elements[at + 2].number_of(5) == 0) {
        take(text, elements[at + 2], 2, true);
        at += 3;
      } else {
        pass(pass, 0);
      }
    }
  }

  void check_groups() {
    for (const ThriftValue& group : groups()) {
      const ThriftValue* chunks = group.find(1);
      const int64_t rows = group.number_of(3, -1);
      if (chunks == nullptr || rows < 0 || rows > INT32_MAX) {
        bad_file(file_, "has a damaged end; write it anew");
      }
      for (size_t c = 0; c < columns_.size(); ++c) {
        const ThriftValue* chunk = chunk_of_[c] < chunks->elements.size()
                                       ? chunks->elements[chunk_of_[c]].find(3)
                                       : nullptr;
        if (chunk == nullptr || chunk->number_of(5) < 0 || chunk->number_of(9) < 0 ||
            chunk->number_of(7) < 0 || chunk->number_of(7) > size_ ||
            chunk->number_of(9) > size_ - chunk->number_of(7)) {
          bad_file(file_, "ends before what it says it holds; write it anew");
        }
        if (chunk->number_of(4) != kUncompressed) {
          bad_file(file_, "has column '" + columns_[c].name + "' compressed" + kOtherForm);
        }
        if (columns_[c].width > 0 && rows > 0) {
          columns_[c].width = std::max<size_t>(1, static_cast<size_t>(chunk->number_of(5) / rows));
        }
      }
    }
  }

  std::filesystem::path file_;
  std::ifstream in_;
  int64_t size_ = 0;
  ThriftValue footer_;
  std::vector<Column> columns_;
  std::vector<int> levels_of_;  // lists of levels before a page's numbers
  std::vector<size_t> chunk_of_;
};

std::vector<int64_t> ids_of(FileReader& in, size_t group) {
  const Column* column = in.column("id");
  if (column == nullptr || column->type != kInt64 || column->width != 0) {
    bad_file(in.file(), "has no column 'id' of 64-bit integers");
  }
  const std::string bytes = in.numbers(group, *column);
  std::vector<int64_t> ids(in.rows_of(group));
  std::memcpy(ids.data(), bytes.data(), bytes.size());
  return ids;
}

double number_at(int32_t type, const char* at) {
  const auto as = [&]<class T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(value);
  };
  switch (type) {
    case kInt32:
      return as(int32_t{});
    case kInt64:
      return as(int64_t{});
    case kFloat:
      return as(float{});
    default:
      return as(double{});
  }
}

// A field of rows that is in a file besides the value.
struct ExtraField {
  Column column;
  uint32_t dtype;
  int32_t offset;
};

std::vector<ExtraField> extra_fields(const Table& table) {
  const TableSpec& spec = table.spec();
  const tenon_row_layout& layout = table.layout();
  std::vector<ExtraField> extras;
  if (spec.has_master) {
    extras.push_back({{"master", kFloat, spec.dim}, TENON_F32, layout.master_offset});
  }
  for (size_t s = 0; s < spec.slots.size(); ++s) {
    const RowSlot& slot = spec.slots[s];
    extras.push_back({{"slot." + slot.name, type_for(slot.dtype), slot.is_scalar ? 0 : spec.dim},
                      slot.dtype,
                      layout.slot_offsets[s]});
  }
  return extras;
}

}  // namespace

void write_rows(const Table& table, RowParts parts, const std::filesystem::path& file) {
  const size_t dim = table.spec().dim;
  std::vector<Column> columns = {{"id", kInt64, 0}, {"vector", kFloat, dim}};
  std::vector<ExtraField> extras;
  if (parts == RowParts::kAll) {
    columns.push_back({"count", kInt64, 0});
    columns.push_back({"last_step", kInt64, 0});
    extras = extra_fields(table);
    for (const ExtraField& extra : extras) {
      columns.push_back(extra.column);
    }
  }
  // Pages say their length in 31 bits.
  const size_t rows_of_group = std::clamp<size_t>((size_t{256} << 20) / (8 * dim), 1, kRowsOfGroup);
  Writer out(file, columns);
  const std::vector<int64_t> ids = table.ids();
  std::vector<int64_t> rows(std::min(rows_of_group, ids.size()));
  std::vector<float> values(rows.size() * dim);
  for (size_t begin = 0; begin < ids.size(); begin += rows_of_group) {
    const size_t n = std::min(rows_of_group, ids.size() - begin);
    const std::span<const int64_t> some(ids.data() + begin, n);
    const std::span<int64_t> rows_of_some(rows.data(), n);
    table.find(some, rows_of_some);
    table.read(rows_of_some, values.data(), static_cast<int64_t>(dim));
    std::vector<std::string> numbers(columns.size());
    append_numbers(numbers[1], TENON_F32, values.data(), n * dim);
    for (size_t i = 0; i < n; ++i) {
      append(numbers[0], some[i]);
      if (parts == RowParts::kAll) {
        const Table::RowInfo info = table.info(rows[i]);
        append(numbers[2], info.count);
        append(numbers[3], info.last_step);
      }
      for (size_t e = 0; e < extras.size(); ++e) {
        append_numbers(numbers[4 + e],
                       extras[e].dtype,
                       tenon_row_field(&table.layout(), rows[i], extras[e].offset),
                       extras[e].column.numbers());
      }
    }
    out.add_group(n, numbers);
  }
  out.finish();
}

int64_t read_rows(Table& table,
                  const std::filesystem::path& file,
                  const std::function<bool(int64_t)>& is_wanted) {
  FileReader in(file);
  const size_t dim = table.spec().dim;
  const auto check = [&](const Column& column, int32_t type, size_t width) {
    if (in.num_groups() > 0 && (column.type != type || column.width != width)) {
      bad_file(file,
               "has rows of " + std::to_string(column.width) + " in column '" + column.name +
                   "' where table '" + table.spec().name + "' has " + std::to_string(width) +
                   ", or another type; import it into a table of the same dim and optimizer");
    }
    return &column;
  };
  const Column* vector = in.column("vector");
  if (vector == nullptr) {
    bad_file(file, "has no column 'vector', a list of floats");
  }
  check(*vector, kFloat, dim);
  const Column* count = in.column("count");
  const Column* last_step = in.column("last_step");
  for (const Column* column : {count, last_step}) {
    if (column != nullptr) {
      check(*column, kInt64, 0);
    }
  }
  struct Found {
    const Column* column;
    ExtraField field;
  };
  std::vector<Found> extras;
  for (const ExtraField& extra : extra_fields(table)) {
    if (const Column* column = in.column(extra.column.name)) {
      extras.push_back({check(*column, extra.column.type, extra.column.width), extra});
    }
  }
  int64_t taken = 0;
  for (size_t group = 0; group < in.num_groups(); ++group) {
    const std::vector<int64_t> ids = ids_of(in, group);
    const std::string values = in.numbers(group, *vector);
    const std::string counts = count == nullptr ? "" : in.numbers(group, *count);
    const std::string steps = last_step == nullptr ? "" : in.numbers(group, *last_step);
    std::vector<std::string> numbers;
    for (const Found& extra : extras) {
      numbers.push_back(in.numbers(group, *extra.column));
    }
    std::vector<float> value(dim);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (is_wanted != nullptr && !is_wanted(ids[i])) {
        continue;
      }
      Table::RowInfo info;
      if (count != nullptr) {
        std::memcpy(&info.count, counts.data() + i * 8, 8);
      }
      if (last_step != nullptr) {
        std::memcpy(&info.last_step, steps.data() + i * 8, 8);
      }
      int64_t row = kNoRow;
      table.renew({&ids[i], 1}, {&info, 1}, {&row, 1});
      std::memcpy(value.data(), values.data() + i * dim * sizeof(float), dim * sizeof(float));
      table.write({&row, 1}, value.data(), static_cast<int64_t>(dim));
      for (size_t e = 0; e < extras.size(); ++e) {
        const Column& column = extras[e].field.column;
        store_numbers(extras[e].field.dtype,
                      numbers[e].data() + i * column.numbers() * size_of(column.type),
                      column.numbers(),
                      tenon_row_field(&table.layout(), row, extras[e].field.offset));
      }
      ++taken;
    }
  }
  return taken;
}

std::optional<std::vector<RowColumn>> find_row(const std::filesystem::path& file, int64_t id) {
  FileReader in(file);
  for (size_t group = 0; group < in.num_groups(); ++group) {
    // Files of others need not be in order.
    const std::vector<int64_t> ids = ids_of(in, group);
    const auto found = std::ranges::find(ids, id);
    if (found == ids.end()) {
      continue;
    }
    const auto i = static_cast<size_t>(found - ids.begin());
    std::vector<RowColumn> row;
    for (const Column& column : in.columns()) {
      if (column.name == "id") {
        continue;
      }
      const std::string numbers = in.numbers(group, column);
      const size_t size = size_of(column.type);
      row.push_back({column.name, {}, column.width > 0});
      for (size_t k = 0; k < column.numbers(); ++k) {
        row.back().numbers.push_back(
            number_at(column.type, numbers.data() + (i * column.numbers() + k) * size));
      }
    }
    return row;
  }
  return std::nullopt;
}

std::filesystem::path row_file(const std::filesystem::path& folder,
                               const std::string& table,
                               int64_t rank,
                               int64_t num_ranks) {
  const auto five = [](int64_t n) {
    const std::string digits = std::to_string(n);
    return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
  };
  return folder / (num_ranks <= 1
                       ? table + ".parquet"
                       : table + "-" + five(rank) + "-of-" + five(num_ranks) + ".parquet");
}

namespace {

// How many ranks wrote a table's files, by the name of the first; 0 where there is none.
int64_t num_ranks_of(const std::filesystem::path& folder, const std::string& table) {
  std::error_code ignored;
  if (std::filesystem::exists(row_file(folder, table, 0, 1), ignored)) {
    return 1;
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    constexpr std::string_view kFirst = "-00000-of-";
    constexpr std::string_view kEnd = ".parquet";
    if (name.size() == table.size() + kFirst.size() + 5 + kEnd.size() &&
        name.starts_with(table + std::string(kFirst)) && name.ends_with(kEnd)) {
      int64_t num_ranks = 0;
      const char* digits = name.data() + table.size() + kFirst.size();
      std::from_chars(digits, digits + 5, num_ranks);
      return num_ranks;
    }
  }
  return 0;
}

// The tables whose files are in a folder, for messages.
std::string tables_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    std::string name = entry.path().stem().string();
    const size_t of = name.rfind("-of-");
    constexpr size_t kRank = 6;  // as "-00001"
    if (of != std::string::npos && of > kRank &&
        num_ranks_of(folder, name.substr(0, of - kRank)) > 0) {
      name.resize(of - kRank);
    }
    if (entry.path().extension() == ".parquet") {
      names.insert(name);
    }
  }
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

}  // namespace

bool has_row_files(const std::filesystem::path& folder, const std::string& table) {
  return num_ranks_of(folder, table) > 0;
}

std::vector<std::filesystem::path> row_files(const std::filesystem::path& folder,
                                             const std::string& table) {
  const int64_t num_ranks = num_ranks_of(folder, table);
  if (num_ranks == 0) {
    const std::string tables = tables_in(folder);
    throw Error("table.bad_file",
                folder.string() + " has no rows of table '" + table + "'; " +
                    (tables.empty() ? "give the folder that --export-tables wrote, whose files are "
                                      "called TABLE.parquet"
                                    : "it has those of " + tables));
  }
  std::vector<std::filesystem::path> files;
  for (int64_t rank = 0; rank < num_ranks; ++rank) {
    files.push_back(row_file(folder, table, rank, num_ranks));
    std::error_code ignored;
    if (!std::filesystem::exists(files.back(), ignored)) {
      bad_file(files.back(),
               "is missing; the rows of " + std::to_string(num_ranks) + " ranks were exported");
    }
  }
  return files;
}

}  // namespace tenon
