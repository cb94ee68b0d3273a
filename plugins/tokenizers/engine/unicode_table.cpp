// SPDX-License-Identifier: Apache-2.0
#include "unicode_table.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace tenon {
namespace {

constexpr char32_t kCodes = 0x110000;
constexpr size_t kBlock = 128;

// Values of all code points in two stages; equal blocks are stored once.
template <class T>
class CodeTable {
 public:
  explicit CodeTable(const RunTable& table) {
    std::vector<T> block(kBlock);
    size_t run = 0;
    for (char32_t code = 0; code < kCodes; ++code) {
      while (run + 1 < table.size && table.runs[run + 1].begin <= code) {
        ++run;
      }
      block[code % kBlock] = static_cast<T>(table.runs[run].value);
      if (code % kBlock == kBlock - 1) {
        add(block);
      }
    }
  }
  T get(char32_t code) const {
    return code < kCodes ? values_[blocks_[code / kBlock] * kBlock + code % kBlock] : T{0};
  }

 private:
  void add(const std::vector<T>& block) {
    // Most blocks equal the one before or one of the first.
    const size_t known = values_.size() / kBlock;
    for (size_t i = known; i-- > 0;) {
      if (std::equal(block.begin(), block.end(), values_.begin() + static_cast<long>(i * kBlock))) {
        blocks_.push_back(static_cast<uint16_t>(i));
        return;
      }
    }
    values_.insert(values_.end(), block.begin(), block.end());
    blocks_.push_back(static_cast<uint16_t>(known));
  }

  std::vector<uint16_t> blocks_;
  std::vector<T> values_;
};

std::u32string_view mapping_of(const MappingTable& table, char32_t code) {
  const CodeMapping* end = table.mappings + table.size;
  const CodeMapping* found = std::lower_bound(
      table.mappings, end, code, [](const CodeMapping& m, char32_t c) { return m.code < c; });
  return found == end || found->code != code
             ? std::u32string_view()
             : std::u32string_view(table.text + found->begin, found->size);
}

}  // namespace

uint32_t flags_of(char32_t code) {
  static const CodeTable<uint32_t> table(kFlagTable);
  return table.get(code);
}

uint8_t script_of(char32_t code) {
  static const CodeTable<uint8_t> table(kScriptTable);
  return table.get(code);
}

uint8_t combining_class_of(char32_t code) {
  if (code < 0x300) {
    return 0;
  }
  static const CodeTable<uint8_t> table(kClassTable);
  return table.get(code);
}

std::u32string_view lowercase_of(char32_t code) {
  return mapping_of(kLowercase, code);
}
std::u32string_view canonical_decomposition_of(char32_t code) {
  return code < 0xA0 ? std::u32string_view() : mapping_of(kCanonical, code);
}
std::u32string_view compatible_decomposition_of(char32_t code) {
  return code < 0xA0 ? std::u32string_view() : mapping_of(kCompatible, code);
}

char32_t composition_of(char32_t first, char32_t second) {
  const CodePair* end = kCompositions.pairs + kCompositions.size;
  const CodePair* found =
      std::lower_bound(kCompositions.pairs,
                       end,
                       CodePair{first, second, 0},
                       [](const CodePair& a, const CodePair& b) {
                         return a.first != b.first ? a.first < b.first : a.second < b.second;
                       });
  return found == end || found->first != first || found->second != second ? 0 : found->composite;
}

}  // namespace tenon
