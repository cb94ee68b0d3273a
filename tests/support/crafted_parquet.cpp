// SPDX-License-Identifier: Apache-2.0
#include "tests/support/crafted_parquet.hpp"

#include <cstring>
#include <string_view>

namespace tenon {
namespace {

// Types of Thrift's compact protocol.
constexpr int kI32 = 5;
constexpr int kI64 = 6;
constexpr int kText = 8;
constexpr int kList = 9;
constexpr int kStruct = 12;

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) {
    bytes += static_cast<char>(value | 0x80);
  }
  return bytes + static_cast<char>(value);
}

std::string zigzag(int64_t value) {
  return varint((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63));
}

std::string text(std::string_view value) {
  return varint(value.size()) + std::string(value);
}

std::string list(int type, const std::vector<std::string>& values) {
  const size_t size = values.size();
  std::string bytes(1,
                    static_cast<char>((size < 15 ? size << 4 : 0xf0) | static_cast<size_t>(type)));
  bytes += size < 15 ? "" : varint(size);
  for (const std::string& value : values) {
    bytes += value;
  }
  return bytes;
}

// The fields of a struct, in ascending order of their ids.
class ThriftStruct {
 public:
  ThriftStruct& add(int id, int type, const std::string& value) {
    bytes_ += static_cast<char>((id - last_) << 4 | type);
    bytes_ += value;
    last_ = id;
    return *this;
  }
  ThriftStruct& add(int id, int64_t value, int type = kI64) { return add(id, type, zigzag(value)); }
  std::string done() const { return bytes_ + '\0'; }

 private:
  std::string bytes_;
  int last_ = 0;
};

constexpr int kRequired = 0;
constexpr int kRepeated = 2;
constexpr int kIsList = 3;  // converted type
constexpr int kInt64 = 2;   // physical types
constexpr int kFloat = 4;

std::string schema() {
  const auto inner = [](std::string_view name, int repetition, int64_t num_children) {
    return ThriftStruct()
        .add(3, repetition, kI32)
        .add(4, kText, text(name))
        .add(5, num_children, kI32);
  };
  const auto leaf = [](std::string_view name, int type) {
    return ThriftStruct()
        .add(1, type, kI32)
        .add(3, kRequired, kI32)
        .add(4, kText, text(name))
        .done();
  };
  return list(kStruct,
              {inner("rows", kRequired, 2).done(),
               leaf("id", kInt64),
               inner("vector", kRequired, 1).add(6, kIsList, kI32).done(),
               inner("list", kRepeated, 1).done(),
               leaf("element", kFloat)});
}

struct Chunk {
  int type;
  std::vector<std::string> path;
  int64_t num_values;
  size_t offset;
  size_t bytes;
};

std::string column_chunk(const Chunk& chunk) {
  const auto bytes = static_cast<int64_t>(chunk.bytes);
  const auto offset = static_cast<int64_t>(chunk.offset);
  std::vector<std::string> path;
  for (const std::string& name : chunk.path) {
    path.push_back(text(name));
  }
  const std::string metadata = ThriftStruct()
                                   .add(1, chunk.type, kI32)
                                   .add(2, kList, list(kI32, {zigzag(0)}))  // PLAIN
                                   .add(3, kList, list(kText, path))
                                   .add(4, 0, kI32)  // not compressed
                                   .add(5, chunk.num_values)
                                   .add(6, bytes)
                                   .add(7, bytes)
                                   .add(9, offset)
                                   .done();
  return ThriftStruct().add(2, offset).add(3, kStruct, metadata).done();
}

std::string page_of(const std::vector<int64_t>& ids) {
  std::string data(ids.size() * sizeof(int64_t), '\0');
  std::memcpy(data.data(), ids.data(), data.size());
  const std::string header = ThriftStruct()
                                 .add(1, static_cast<int64_t>(ids.size()), kI32)
                                 .add(2, 0, kI32)  // PLAIN
                                 .add(3, 3, kI32)  // levels: RLE
                                 .add(4, 3, kI32)
                                 .done();
  const auto bytes = static_cast<int64_t>(data.size());
  return ThriftStruct()
             .add(1, 0, kI32)  // a data page
             .add(2, bytes, kI32)
             .add(3, bytes, kI32)
             .add(5, kStruct, header)
             .done() +
         data;
}

std::string row_group(const std::vector<std::string>& chunks, size_t bytes, int64_t num_rows) {
  return ThriftStruct()
      .add(1, kList, list(kStruct, chunks))
      .add(2, static_cast<int64_t>(bytes))
      .add(3, num_rows)
      .done();
}

std::string file_of(const std::string& data, int64_t rows, const std::vector<std::string>& groups) {
  const std::string footer = ThriftStruct()
                                 .add(1, 1, kI32)  // version
                                 .add(2, kList, schema())
                                 .add(3, rows)
                                 .add(4, kList, list(kStruct, groups))
                                 .done();
  const auto length = static_cast<uint32_t>(footer.size());
  std::string end(sizeof(length), '\0');
  std::memcpy(end.data(), &length, sizeof(length));
  return "PAR1" + data + footer + end + "PAR1";
}

}  // namespace

std::string crafted_parquet(const std::vector<CraftedGroup>& groups) {
  constexpr size_t kMagicBytes = 4;
  std::string data;
  std::vector<std::string> described;
  int64_t rows = 0;
  for (const CraftedGroup& group : groups) {
    const size_t offset = kMagicBytes + data.size();
    const std::string page = page_of(group.ids);
    const auto num_ids = static_cast<int64_t>(group.ids.size());
    data += page;
    described.push_back(row_group(
        {column_chunk({kInt64, {"id"}, num_ids, offset, page.size()}),
         column_chunk({kFloat, {"vector", "list", "element"}, group.num_vector_values, offset, 0})},
        page.size(),
        group.num_rows));
    rows += group.num_rows;
  }
  return file_of(data, rows, described);
}

std::string parquet_footer_of_chunks(size_t bytes, size_t chunks_of_group) {
  const std::string chunk = ThriftStruct().add(2, 0).done();
  const std::string group = row_group(std::vector<std::string>(chunks_of_group, chunk), 0, 0);
  return file_of("", 0, std::vector<std::string>(bytes / group.size() + 1, group));
}

}  // namespace tenon
