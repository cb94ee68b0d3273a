// SPDX-License-Identifier: Apache-2.0
//
// The Parquet module: build/lib/tenon_parquet.so, the only code of the host that uses Apache Arrow.
// It writes the simplest form of the format: version 1.0, no compression, no dictionaries, no
// nulls. Each page has a checksum. It reads everything that Arrow decodes, except nulls and lists
// of different lengths, and verifies the checksums of pages that have one. Invariant: at most one
// row group of one column is in memory.
#include <tenon/tensor.h>

#include "host/embedding/parquet_module.hpp"
#include "host/io/checked_size.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <arrow/io/file.h>
#include <arrow/util/float16.h>
#include <cstdint>
#include <cstring>
#include <optional>
#include <parquet/column_reader.h>
#include <parquet/column_writer.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/file_writer.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>
#include <parquet/schema.h>
#include <parquet/types.h>
#include <span>
#include <stdexcept>
#include <string_view>
#include <tenon_build.hpp>
#include <utility>

namespace tenon {
namespace {

constexpr int64_t kNumbersAtOnce = 65'536;

parquet::Type::type physical_type(uint32_t dtype) {
  switch (dtype) {
    case TENON_I32:
      return parquet::Type::INT32;
    case TENON_I64:
      return parquet::Type::INT64;
    case TENON_F64:
      return parquet::Type::DOUBLE;
    default:
      return parquet::Type::FLOAT;
  }
}

bool is_half_float(const parquet::ColumnDescriptor& column) {
  return column.logical_type() != nullptr && column.logical_type()->is_float16();
}

bool is_unsigned(const parquet::ColumnDescriptor& column) {
  const auto* const type =
      dynamic_cast<const parquet::IntLogicalType*>(column.logical_type().get());
  return type != nullptr && !type->is_signed();
}

// Returns the dtype that holds all numbers of a column; none for other columns.
std::optional<uint32_t> dtype_of(const parquet::ColumnDescriptor& column) {
  if (is_half_float(column)) {
    return TENON_F32;
  }
  switch (column.physical_type()) {
    case parquet::Type::INT32:
      return is_unsigned(column) ? TENON_I64 : TENON_I32;
    case parquet::Type::INT64:
      return TENON_I64;
    case parquet::Type::FLOAT:
      return TENON_F32;
    case parquet::Type::DOUBLE:
      return TENON_F64;
    default:
      return std::nullopt;
  }
}

// Calls `body` with a value of the Parquet type for the dtype.
template <class Body>
auto with_type(uint32_t dtype, Body body) {
  switch (dtype) {
    case TENON_I32:
      return body(parquet::Int32Type{});
    case TENON_I64:
      return body(parquet::Int64Type{});
    case TENON_F64:
      return body(parquet::DoubleType{});
    default:
      return body(parquet::FloatType{});
  }
}

// A required number, or the three levels of a required list.
parquet::schema::NodePtr node_of(const ParquetColumn& column) {
  using parquet::Repetition;
  using parquet::schema::GroupNode;
  using parquet::schema::PrimitiveNode;
  const parquet::Type::type type = physical_type(column.dtype);
  if (column.width == 0) {
    return PrimitiveNode::Make(column.name, Repetition::REQUIRED, type);
  }
  const auto element = PrimitiveNode::Make("element", Repetition::REQUIRED, type);
  const auto list = GroupNode::Make("list", Repetition::REPEATED, {element});
  return GroupNode::Make(column.name, Repetition::REQUIRED, {list}, parquet::ConvertedType::LIST);
}

class Writer final : public ParquetWriter {
 public:
  Writer(const std::string& file, const std::vector<ParquetColumn>& columns) : columns_(columns) {
    parquet::schema::NodeVector nodes;
    for (const ParquetColumn& column : columns) {
      nodes.push_back(node_of(column));
    }
    const auto root =
        parquet::schema::GroupNode::Make("rows", parquet::Repetition::REQUIRED, nodes);
    const auto properties = parquet::WriterProperties::Builder()
                                .version(parquet::ParquetVersion::PARQUET_1_0)
                                ->data_page_version(parquet::ParquetDataPageVersion::V1)
                                ->disable_dictionary()
                                ->disable_statistics()
                                ->enable_page_checksum()
                                ->created_by("tenon")
                                ->build();
    PARQUET_ASSIGN_OR_THROW(out_, arrow::io::FileOutputStream::Open(file));
    writer_ = parquet::ParquetFileWriter::Open(
        out_, std::static_pointer_cast<parquet::schema::GroupNode>(root), properties);
  }

  void add_group(size_t rows, const std::vector<std::string>& numbers) override {
    parquet::RowGroupWriter* const group = writer_->AppendRowGroup();
    for (size_t c = 0; c < columns_.size(); ++c) {
      with_type(columns_[c].dtype, [&]<class Type>(Type) {
        auto* const writer = static_cast<parquet::TypedColumnWriter<Type>*>(group->NextColumn());
        write(*writer,
              columns_[c].width,
              reinterpret_cast<const typename Type::c_type*>(numbers[c].data()),
              rows * columns_[c].numbers());
        writer->Close();
      });
    }
    group->Close();
  }

  void finish() override {
    writer_->Close();
    PARQUET_THROW_NOT_OK(out_->Close());
  }

 private:
  // Writes lists in batches of whole rows, to bound the memory of the two levels per number.
  template <class ColumnWriter, class Number>
  void write(ColumnWriter& writer, size_t width, const Number* numbers, size_t count) {
    if (width == 0) {
      writer.WriteBatch(static_cast<int64_t>(count), nullptr, nullptr, numbers);
      return;
    }
    const size_t most = std::max<size_t>(kNumbersAtOnce / width, 1) * width;
    const std::vector<int16_t> is_defined(std::min(most, count), 1);
    std::vector<int16_t> repetition(is_defined.size(), 1);
    for (size_t i = 0; i < repetition.size(); i += width) {
      repetition[i] = 0;  // starts a list
    }
    for (size_t begin = 0; begin < count; begin += most) {
      const auto n = static_cast<int64_t>(std::min(most, count - begin));
      writer.WriteBatch(n, is_defined.data(), repetition.data(), numbers + begin);
    }
  }

  std::vector<ParquetColumn> columns_;
  std::shared_ptr<arrow::io::FileOutputStream> out_;
  std::unique_ptr<parquet::ParquetFileWriter> writer_;
};

// Checks that each row of a column is a list of one length.
class ListLengths {
 public:
  // `first_row` is the number of the first row in the file.
  ListLengths(const ParquetColumn& column, uint64_t first_row) : column_(column), row_(first_row) {}

  // Adds the repetition levels of the next numbers: 0 begins a row.
  void add(std::span<const int16_t> levels) {
    for (const int16_t level : levels) {
      if (level == 0 && has_row_) {
        end_row();
      }
      has_row_ = true;
      ++length_;
      if (length_ > column_.width) {
        fail(" or more");
      }
    }
  }
  void finish() {
    if (has_row_) {
      end_row();
    }
  }

 private:
  void end_row() {
    if (length_ != column_.width) {
      fail("");
    }
    length_ = 0;
    ++row_;
  }
  [[noreturn]] void fail(std::string_view more) const {
    throw std::runtime_error(
        formatted("column '{}' has a list of {} numbers{} in row {}, counted from 0 (expected {} "
                  "as in the other rows); write lists of one length",
                  column_.name,
                  length_,
                  more,
                  row_,
                  column_.width));
  }

  const ParquetColumn& column_;
  uint64_t row_;
  size_t length_ = 0;
  bool has_row_ = false;
};

class Reader final : public ParquetReader {
 public:
  explicit Reader(const std::string& file)
      : reader_(parquet::ParquetFileReader::OpenFile(file, /*memory_map=*/false, properties())),
        metadata_(reader_->metadata()) {
    for (int leaf = 0; leaf < metadata_->num_columns(); ++leaf) {
      add_leaf(leaf);
    }
  }

  const std::vector<ParquetColumn>& columns() const override { return columns_; }
  size_t num_groups() const override { return static_cast<size_t>(metadata_->num_row_groups()); }
  size_t rows_of(size_t group) const override {
    return static_cast<size_t>(
        std::max<int64_t>(metadata_->RowGroup(static_cast<int>(group))->num_rows(), 0));
  }

  std::string numbers(size_t group, size_t column) override {
    const auto reader = reader_->RowGroup(static_cast<int>(group))->Column(leaves_[column]);
    if (reader->type() == parquet::Type::FIXED_LEN_BYTE_ARRAY) {
      return read(static_cast<parquet::FixedLenByteArrayReader&>(*reader),
                  columns_[column],
                  first_row_of(group),
                  rows_of(group));
    }
    if (reader->type() == parquet::Type::INT32 && columns_[column].dtype == TENON_I64) {
      return widened(read(static_cast<parquet::Int32Reader&>(*reader),
                          columns_[column],
                          first_row_of(group),
                          rows_of(group)));
    }
    return with_type(columns_[column].dtype, [&]<class Type>(Type) {
      return read(static_cast<parquet::TypedColumnReader<Type>&>(*reader),
                  columns_[column],
                  first_row_of(group),
                  rows_of(group));
    });
  }

 private:
  // Pages without a checksum are read as they are.
  static parquet::ReaderProperties properties() {
    parquet::ReaderProperties properties;
    properties.set_page_checksum_verification(true);
    return properties;
  }

  uint64_t first_row_of(size_t group) const {
    uint64_t row = 0;
    for (size_t before = 0; before < group; ++before) {
      row += rows_of(before);  // wraps only if the file claims more rows than it has
    }
    return row;
  }

  // Adds a top-level column if it has numbers or lists of numbers.
  void add_leaf(int leaf) {
    const parquet::ColumnDescriptor* const column = metadata_->schema()->Column(leaf);
    const std::vector<std::string> path = column->path()->ToDotVector();
    const std::optional<uint32_t> dtype = dtype_of(*column);
    const parquet::schema::Node* const root = metadata_->schema()->GetColumnRoot(leaf);
    const bool is_number = path.size() == 1 && column->max_repetition_level() == 0;
    const bool is_list = path.size() == 3 && column->max_repetition_level() == 1 &&
                         root->converted_type() == parquet::ConvertedType::LIST;
    if (!dtype.has_value() || (!is_number && !is_list)) {
      return;
    }
    columns_.push_back({path.front(),
                        *dtype,
                        is_list ? width_of(leaf) : 0,
                        column->physical_type() == parquet::Type::INT64 && is_unsigned(*column)});
    leaves_.push_back(leaf);
  }

  // Returns the length of lists, from the sizes of the row groups; 1 if the file has no rows.
  size_t width_of(int leaf) const {
    int64_t width = 1;
    for (int group = 0; group < metadata_->num_row_groups(); ++group) {
      const auto of_group = metadata_->RowGroup(group);
      if (of_group->num_rows() > 0) {
        width = std::max(width, of_group->ColumnChunk(leaf)->num_values() / of_group->num_rows());
      }
    }
    return static_cast<size_t>(width);
  }

  // Memory grows with the numbers read, not with the size that a corrupt file claims.
  template <class ColumnReader>
  static std::string read(ColumnReader& reader,
                          const ParquetColumn& column,
                          uint64_t first_row,
                          size_t rows) {
    using Number = typename ColumnReader::T;
    const std::optional<uint64_t> expected = checked_product(rows, column.numbers());
    const parquet::ColumnDescriptor* const descriptor = reader.descr();
    std::vector<Number> some(kNumbersAtOnce);
    std::vector<int16_t> definition(kNumbersAtOnce);
    std::vector<int16_t> repetition(kNumbersAtOnce);
    std::string numbers;
    size_t count = 0;
    ListLengths lists(column, first_row);
    while (reader.HasNext()) {
      int64_t num_values = 0;
      const int64_t num_levels = reader.ReadBatch(
          kNumbersAtOnce, definition.data(), repetition.data(), some.data(), &num_values);
      if (num_levels == 0 && num_values == 0) {
        break;
      }
      if (descriptor->max_definition_level() > 0) {
        check_no_nulls(std::span(definition).first(static_cast<size_t>(num_levels)),
                       descriptor->max_definition_level(),
                       column);
      }
      if (column.width > 0) {
        lists.add(std::span(repetition).first(static_cast<size_t>(num_levels)));
      }
      append(std::span<const Number>(some).first(static_cast<size_t>(num_values)), numbers);
      count += static_cast<size_t>(num_values);
      if (!expected.has_value() || count > *expected) {
        break;
      }
    }
    if (column.width > 0 && expected.has_value() && count <= *expected) {
      lists.finish();
    }
    if (count != expected) {
      throw std::runtime_error(
          formatted("column '{}' has {} numbers in a group of {} rows; each row needs {}",
                    column.name,
                    count,
                    rows,
                    column.numbers()));
    }
    return numbers;
  }

  template <class Number>
  static void append(std::span<const Number> some, std::string& numbers) {
    numbers.append(reinterpret_cast<const char*>(some.data()), some.size_bytes());
  }
  static void append(std::span<const parquet::FixedLenByteArray> halves, std::string& numbers) {
    for (const parquet::FixedLenByteArray& half : halves) {
      uint16_t bits = 0;
      std::memcpy(&bits, half.ptr, sizeof bits);
      const float number = arrow::util::Float16::FromBits(bits).ToFloat();
      numbers.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
  }

  // Converts unsigned numbers of 32 bits to 64 bits.
  static std::string widened(const std::string& narrow) {
    std::string wide;
    wide.reserve(narrow.size() + narrow.size());
    for (size_t at = 0; at < narrow.size(); at += sizeof(uint32_t)) {
      uint32_t number = 0;
      std::memcpy(&number, narrow.data() + at, sizeof number);
      const int64_t wider = number;
      wide.append(reinterpret_cast<const char*>(&wider), sizeof wider);
    }
    return wide;
  }

  static void check_no_nulls(std::span<const int16_t> levels,
                             int16_t most,
                             const ParquetColumn& column) {
    if (std::ranges::any_of(levels, [most](int16_t level) { return level != most; })) {
      throw std::runtime_error("column '" + column.name +
                               "' has nulls or empty lists; write the file without them");
    }
  }

  std::unique_ptr<parquet::ParquetFileReader> reader_;
  std::shared_ptr<parquet::FileMetaData> metadata_;
  std::vector<ParquetColumn> columns_;
  std::vector<int> leaves_;  // Parquet's index of each column
};

std::unique_ptr<ParquetWriter> create(const std::string& file,
                                      const std::vector<ParquetColumn>& columns) {
  return std::make_unique<Writer>(file, columns);
}

std::unique_ptr<ParquetReader> open(const std::string& file) {
  return std::make_unique<Reader>(file);
}

}  // namespace
}  // namespace tenon

extern "C" __attribute__((visibility("default")))
const tenon::ParquetModule tenon_parquet_module = {
    tenon::kParquetModuleBuild, &tenon::create, &tenon::open};
