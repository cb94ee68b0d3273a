// SPDX-License-Identifier: Apache-2.0
#include "host/embedding/parquet_footer.hpp"

#include "host/io/regular_file.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <span>

namespace tenon {
namespace {

constexpr std::string_view kParquetMagic = "PAR1";  // at both ends
constexpr int kMaxThriftDepth = 64;                 // as in Thrift's own readers

// Types of the compact protocol.
// Source: Thrift compact protocol encoding, github.com/apache/thrift, doc/specs.
enum ThriftType : uint8_t {
  kStop = 0,
  kTrue = 1,
  kFalse = 2,
  kByte = 3,
  kI16 = 4,
  kI32 = 5,
  kI64 = 6,
  kDouble = 7,
  kBinary = 8,
  kList = 9,
  kSet = 10,
  kMap = 11,
  kStruct = 12,
  kUuid = 13
};

// Skips over a struct and counts. All functions return false at the first malformed byte, and at
// the limit.
class ItemCount {
 public:
  explicit ItemCount(std::string_view bytes) : bytes_(bytes) {}

  bool skip_struct(int depth) {
    uint8_t head = 0;
    while (take_byte(head)) {
      const uint8_t type = head & 15;
      if (type == kStop) {
        return true;
      }
      uint64_t field = 0;
      if ((head >> 4) == 0 && !take_varint(field)) {
        return false;
      }
      if (type >= kBinary && !add_items(1)) {
        return false;
      }
      if (type != kTrue && type != kFalse && !skip_value(type, depth)) {
        return false;
      }
    }
    return false;
  }

  bool is_over() const { return count_ > kMaxParquetFooterItems; }

 private:
  bool add_items(uint64_t n) {
    count_ += std::min(n, kMaxParquetFooterItems + 1);
    return !is_over();
  }

  bool take_byte(uint8_t& byte) {
    if (bytes_.empty()) {
      return false;
    }
    byte = static_cast<uint8_t>(bytes_.front());
    bytes_.remove_prefix(1);
    return true;
  }

  bool take_varint(uint64_t& value) {
    value = 0;
    uint8_t byte = 0;
    for (int shift = 0; shift < 64 && take_byte(byte); shift += 7) {
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) {
        return true;
      }
    }
    return false;
  }

  bool skip_bytes(uint64_t n) {
    if (n > bytes_.size()) {
      return false;
    }
    bytes_.remove_prefix(n);
    return true;
  }

  bool skip_value(uint8_t type, int depth) {
    uint64_t value = 0;
    switch (type) {
      case kTrue:
      case kFalse:
      case kByte:
        return skip_bytes(1);
      case kI16:
      case kI32:
      case kI64:
        return take_varint(value);
      case kDouble:
        return skip_bytes(8);
      case kUuid:
        return skip_bytes(16);
      case kBinary:
        return take_varint(value) && skip_bytes(value);
      case kList:
      case kSet:
        return depth > 0 && skip_list(depth - 1);
      case kMap:
        return depth > 0 && skip_map(depth - 1);
      case kStruct:
        return depth > 0 && skip_struct(depth - 1);
      default:
        return false;
    }
  }

  // Readers reserve memory for all elements that a list claims.
  bool skip_list(int depth) {
    uint8_t head = 0;
    if (!take_byte(head)) {
      return false;
    }
    uint64_t size = head >> 4;
    if (size == 15 && !take_varint(size)) {
      return false;
    }
    return add_items(size) && skip_values(head & 15, size, depth);
  }

  bool skip_map(int depth) {
    uint64_t size = 0;
    uint8_t types = 0;
    if (!take_varint(size) || (size > 0 && !take_byte(types)) || !add_items(size)) {
      return false;
    }
    for (uint64_t i = 0; i < size; ++i) {
      if (!skip_value(types >> 4, depth) || !skip_value(types & 15, depth)) {
        return false;
      }
    }
    return true;
  }

  bool skip_values(uint8_t type, uint64_t size, int depth) {
    for (uint64_t i = 0; i < size; ++i) {
      if (!skip_value(type, depth)) {
        return false;
      }
    }
    return true;
  }

  std::string_view bytes_;
  uint64_t count_ = 0;
};

}  // namespace

bool has_too_many_items(std::string_view footer) noexcept {
  ItemCount count(footer);
  count.skip_struct(kMaxThriftDepth);
  return count.is_over();
}

std::string parquet_footer_problem(const std::filesystem::path& file) {
  const RegularFile opened = open_regular_file(file.string());
  if (!opened.file.is_open()) {
    return "cannot be read: " + opened.problem;
  }
  struct {
    uint32_t length;
    char magic[4];
  } end = {};
  size_t num_read = 0;
  if (opened.size < sizeof(end)) {
    return "";
  }
  (void)read_at(
      opened.file, opened.size - sizeof(end), std::as_writable_bytes(std::span(&end, 1)), num_read);
  if (num_read < sizeof(end) || std::string_view(end.magic, 4) != kParquetMagic ||
      end.length > opened.size - sizeof(end)) {
    return "";
  }
  if (end.length > kMaxParquetFooter) {
    return formatted(
        "has a footer of {} bytes; at most {} are read", end.length, kMaxParquetFooter);
  }
  std::string footer(end.length, '\0');
  (void)read_at(opened.file,
                opened.size - sizeof(end) - end.length,
                std::as_writable_bytes(std::span(footer)),
                num_read);
  footer.resize(num_read);
  return has_too_many_items(footer)
             ? formatted("has a footer of more than {} entries", kMaxParquetFooterItems)
             : "";
}

}  // namespace tenon
