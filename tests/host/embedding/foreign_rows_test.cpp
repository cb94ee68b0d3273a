// SPDX-License-Identifier: Apache-2.0
//
// Files of rows that other programs write with Arrow: lists of unequal lengths, nulls at each
// level, unsigned integers, and pages with and without checksums.
#include "host/embedding/row_file.hpp"
#include "host/error/error.hpp"

#include <arrow/io/file.h>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <parquet/column_writer.h>
#include <parquet/exception.h>
#include <parquet/file_writer.h>
#include <parquet/properties.h>
#include <parquet/schema.h>
#include <parquet/types.h>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

constexpr uint32_t kForeignDim = 8;
constexpr int16_t kPresent = 3;  // definition levels of an optional list of optional numbers
constexpr int16_t kNullNumber = 2;
constexpr int16_t kEmptyList = 1;
constexpr int16_t kNullList = 0;

// A row: the definition level of each of its numbers, or the one of an empty or null list.
using ForeignRow = std::vector<int16_t>;
using ForeignGroup = std::vector<ForeignRow>;

ForeignRow list_of(size_t length) {
  return ForeignRow(length, kPresent);
}

// Writes ids from 11 on, and lists of 0, 1, 2...
void write_foreign(const std::filesystem::path& file,
                   const std::vector<ForeignGroup>& groups,
                   bool has_checksums = false) {
  using parquet::Repetition;
  using parquet::schema::GroupNode;
  using parquet::schema::PrimitiveNode;
  const auto id = PrimitiveNode::Make("id", Repetition::REQUIRED, parquet::Type::INT64);
  const auto element = PrimitiveNode::Make("element", Repetition::OPTIONAL, parquet::Type::FLOAT);
  const auto list = GroupNode::Make("list", Repetition::REPEATED, {element});
  const auto vector =
      GroupNode::Make("vector", Repetition::OPTIONAL, {list}, parquet::ConvertedType::LIST);
  const auto root = GroupNode::Make("rows", Repetition::REQUIRED, {id, vector});
  parquet::WriterProperties::Builder properties;
  if (has_checksums) {
    properties.enable_page_checksum();
  }
  PARQUET_ASSIGN_OR_THROW(const auto out, arrow::io::FileOutputStream::Open(file.string()));
  const auto writer = parquet::ParquetFileWriter::Open(
      out, std::static_pointer_cast<GroupNode>(root), properties.build());
  int64_t next_id = 11;
  float next_number = 0;
  for (const ForeignGroup& rows : groups) {
    std::vector<int64_t> ids(rows.size());
    std::iota(ids.begin(), ids.end(), next_id);
    next_id += static_cast<int64_t>(rows.size());
    std::vector<int16_t> definition;
    std::vector<int16_t> repetition;
    std::vector<float> numbers;
    for (const ForeignRow& row : rows) {
      for (size_t i = 0; i < row.size(); ++i) {
        definition.push_back(row[i]);
        repetition.push_back(i == 0 ? 0 : 1);
        if (row[i] == kPresent) {
          numbers.push_back(next_number++);
        }
      }
    }
    parquet::RowGroupWriter* const group = writer->AppendRowGroup();
    auto* const id_column = static_cast<parquet::Int64Writer*>(group->NextColumn());
    id_column->WriteBatch(static_cast<int64_t>(ids.size()), nullptr, nullptr, ids.data());
    auto* const vectors = static_cast<parquet::FloatWriter*>(group->NextColumn());
    vectors->WriteBatch(static_cast<int64_t>(definition.size()),
                        definition.data(),
                        repetition.data(),
                        numbers.data());
  }
  writer->Close();
  PARQUET_THROW_NOT_OK(out->Close());
}

// A column of unsigned integers in 32 or 64 bits.
void write_unsigned_column(parquet::RowGroupWriter& group,
                           int bits,
                           const std::vector<uint64_t>& numbers) {
  const auto count = static_cast<int64_t>(numbers.size());
  parquet::ColumnWriter* const column = group.NextColumn();
  if (bits == 64) {
    const std::vector<int64_t> wide(numbers.begin(), numbers.end());
    static_cast<parquet::Int64Writer*>(column)->WriteBatch(count, nullptr, nullptr, wide.data());
  } else {
    const std::vector<int32_t> narrow(numbers.begin(), numbers.end());
    static_cast<parquet::Int32Writer*>(column)->WriteBatch(count, nullptr, nullptr, narrow.data());
  }
}

// Writes rows of zeros, with ids and a column "hash" of unsigned integers of `bits` bits.
void write_unsigned(const std::filesystem::path& file,
                    int bits,
                    const std::vector<uint64_t>& ids,
                    const std::vector<uint64_t>& hashes) {
  using parquet::Repetition;
  using parquet::schema::GroupNode;
  using parquet::schema::PrimitiveNode;
  const auto unsigned_node = [bits](const char* name) {
    return PrimitiveNode::Make(name,
                               Repetition::REQUIRED,
                               parquet::LogicalType::Int(bits, /*is_signed=*/false),
                               bits == 64 ? parquet::Type::INT64 : parquet::Type::INT32);
  };
  const auto element = PrimitiveNode::Make("element", Repetition::REQUIRED, parquet::Type::FLOAT);
  const auto list = GroupNode::Make("list", Repetition::REPEATED, {element});
  const auto vector =
      GroupNode::Make("vector", Repetition::REQUIRED, {list}, parquet::ConvertedType::LIST);
  const auto root = GroupNode::Make(
      "rows", Repetition::REQUIRED, {unsigned_node("id"), vector, unsigned_node("hash")});
  PARQUET_ASSIGN_OR_THROW(const auto out, arrow::io::FileOutputStream::Open(file.string()));
  const auto writer =
      parquet::ParquetFileWriter::Open(out, std::static_pointer_cast<GroupNode>(root));
  parquet::RowGroupWriter* const group = writer->AppendRowGroup();
  write_unsigned_column(*group, bits, ids);
  const std::vector<float> numbers(ids.size() * kForeignDim, 0.0F);
  const std::vector<int16_t> definition(numbers.size(), 1);
  std::vector<int16_t> repetition(numbers.size(), 1);
  for (size_t i = 0; i < repetition.size(); i += kForeignDim) {
    repetition[i] = 0;
  }
  auto* const vectors = static_cast<parquet::FloatWriter*>(group->NextColumn());
  vectors->WriteBatch(
      static_cast<int64_t>(numbers.size()), definition.data(), repetition.data(), numbers.data());
  write_unsigned_column(*group, bits, hashes);
  writer->Close();
  PARQUET_THROW_NOT_OK(out->Close());
}

Table foreign_table() {
  TableSpec spec;
  spec.name = std::string("item");
  spec.dim = kForeignDim;
  return Table(spec);
}

// The message of the error; "" if the file was read.
std::string read_refusal(const std::filesystem::path& file) {
  Table table = foreign_table();
  try {
    read_rows(table, file);
  } catch (const Error& error) {
    CHECK(error.id() == "table.bad_file");
    return error.message();
  }
  return "";
}

// The same of both readers of a file.
std::string refusal(const std::filesystem::path& file) {
  const std::string whole = read_refusal(file);
  try {
    (void)find_row(file, 11);
    CHECK(whole.empty());
  } catch (const Error& error) {
    CHECK(error.message() == whole);
  }
  return whole;
}

}  // namespace

TEST_CASE("a list of another length than the others is refused with its row", "[embedding]") {
  const ScratchFolder folder;
  const auto file = folder.path() / "c.parquet";
  struct Case {
    std::vector<ForeignGroup> groups;
    std::string said;
  };
  const ForeignRow good = list_of(8);
  for (const Case& one : std::vector<Case>{
           {{{list_of(3), list_of(13)}}, "a list of 3 numbers in row 0"},
           {{{list_of(13), list_of(3)}}, "a list of 9 numbers or more in row 0"},
           {{{good, list_of(7), list_of(9)}}, "a list of 7 numbers in row 1"},
           {{{good, good, list_of(9), list_of(7)}}, "a list of 9 numbers or more in row 2"}}) {
    write_foreign(file, one.groups);
    INFO(one.said);
    CHECK_THAT(refusal(file),
               contains_text(file.string()) && contains_text("column 'vector'") &&
                   contains_text(one.said) && contains_text("expected 8"));
  }
  // In a later group, after rows that were read.
  write_foreign(file, {{good, good}, {good, list_of(4), list_of(12)}});
  CHECK_THAT(read_refusal(file),
             contains_text("a list of 4 numbers in row 3, counted from 0 (expected 8"));
  write_foreign(file, {{list_of(7), list_of(7)}});
  CHECK_THAT(read_refusal(file), contains_text("7 in column 'vector' where table 'item' has 8"));
}

TEST_CASE("nulls in a file of rows are refused at each level", "[embedding]") {
  const ScratchFolder folder;
  const auto file = folder.path() / "c.parquet";
  ForeignRow with_null = list_of(8);
  with_null[5] = kNullNumber;
  for (const ForeignRow& row : {with_null, ForeignRow{kEmptyList}, ForeignRow{kNullList}}) {
    // The other list makes up for the number that is missing.
    write_foreign(file, {{list_of(8 + 8 - row.size()), row}});
    CHECK_THAT(read_refusal(file),
               contains_text(file.string()) && (contains_text("nulls or empty lists") ||
                                                contains_text("numbers or more in row 0")));
  }
}

TEST_CASE("unsigned integers in a file of rows keep their values", "[embedding]") {
  const ScratchFolder folder;
  const auto file = folder.path() / "c.parquet";
  for (const auto& [bits, largest] : std::vector<std::pair<int, uint64_t>>{
           {8, UINT8_MAX}, {16, UINT16_MAX}, {32, UINT32_MAX}, {64, INT64_MAX}}) {
    CAPTURE(bits);
    write_unsigned(file, bits, {largest, 7}, {9, largest});
    Table table = foreign_table();
    CHECK(read_rows(table, file) == 2);
    CHECK(table.ids() == std::vector<int64_t>{7, static_cast<int64_t>(largest)});
    CHECK(find_row(file, static_cast<int64_t>(largest)).has_value());
    const auto row = find_row(file, 7);
    REQUIRE(row.has_value());
    CHECK(row->back() == RowColumn{"hash", {static_cast<double>(largest)}, false});
  }
  write_unsigned(file, 64, {7}, {UINT64_MAX});
  const auto row = find_row(file, 7);
  REQUIRE(row.has_value());
  CHECK(row->back() == RowColumn{"hash", {0x1p64}, false});
  // Ids of tables have a sign.
  write_unsigned(file, 64, {7, uint64_t{1} << 63}, {0, 0});
  CHECK_THAT(refusal(file),
             contains_text(file.string()) &&
                 contains_text("has the id 9223372036854775808 in row 1 of row group 0"));
}

TEST_CASE("pages without checksums are read, and a flipped bit in others is found", "[embedding]") {
  const ScratchFolder folder;
  const auto file = folder.path() / "c.parquet";
  for (const bool has_checksums : {false, true}) {
    write_foreign(file, {{list_of(8), list_of(8)}}, has_checksums);
    CHECK(refusal(file).empty());
    const auto row = find_row(file, 12);
    REQUIRE(row.has_value());
    CHECK(row->front().numbers == std::vector<double>{8, 9, 10, 11, 12, 13, 14, 15});
  }
  // Tenon's own files have them. Which bytes are data of a page, the number 4096.5 shows.
  const auto own = folder.path() / "own.parquet";
  Table table = foreign_table();
  const std::vector<int64_t> ids = {5};
  std::vector<int64_t> rows(1);
  table.find_or_insert(ids, std::vector<int64_t>{1}, rows);
  const std::vector<float> value(8, 4096.5F);
  table.write(rows, value.data(), 8);
  write_rows(table, RowParts::kAll, own);
  std::string bytes = file_text(own);
  const std::string number(reinterpret_cast<const char*>(value.data()), sizeof(float));
  const size_t at = bytes.find(number);
  REQUIRE(at != std::string::npos);
  bytes[at + 1] = static_cast<char>(bytes[at + 1] ^ 4);
  std::ofstream(own, std::ios::binary | std::ios::trunc) << bytes;
  Table other = foreign_table();
  std::string message;
  try {
    read_rows(other, own);
  } catch (const Error& error) {
    CHECK(error.id() == "table.bad_file");
    message = error.message();
  }
  CHECK_THAT(message, contains_text(own.string()) && contains_text("CRC checksum"));
  CHECK(other.num_rows() == 0);
}

}  // namespace tenon
