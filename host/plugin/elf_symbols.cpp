// SPDX-License-Identifier: Apache-2.0
//
// Source: System V Application Binary Interface (gABI 4.1), chapter 5, "Dynamic Section" and "Hash
// Table". The layout of DT_GNU_HASH is that of GNU binutils (elflink.c).
//
// Symbols are found as the dynamic linker finds them: from the dynamic segment, through addresses
// and a hash table. Sections, which strip may remove, are not used.

#include "host/plugin/elf_symbols.hpp"

#include "host/plugin/elf_file.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <elf.h>
#include <vector>

namespace tenon {
namespace {

// More than any plugin has, and few enough to read at every start.
constexpr uint64_t kMaxSymbols = 1 << 20;
constexpr uint64_t kMaxDynamicEntries = 1000;
constexpr uint64_t kSymbolsPerRead = 1024;
constexpr std::size_t kMaxNameBytes = 200;

// Part of the file, inside of it.
struct Extent {
  uint64_t offset = 0;
  uint64_t size = 0;
};

// Range of indices into the symbol table.
struct SymbolRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

class SymbolReader {
 public:
  explicit SymbolReader(const ElfFile& file) : file_(file) {}

  std::optional<std::string> run() {
    if (!read_segments() || !read_dynamic()) {
      return std::nullopt;
    }
    const Extent table = extent_at(symbols_);
    const SymbolRange range = exported_symbols();
    for (uint64_t i = range.begin; i < range.end; i += kSymbolsPerRead) {
      const uint64_t count = std::min(kSymbolsPerRead, range.end - i);
      const auto symbols = read_array<Elf64_Sym>(table, i * sizeof(Elf64_Sym), count);
      if (!symbols) {
        return std::nullopt;
      }
      for (const Elf64_Sym& symbol : *symbols) {
        if (ELF64_ST_BIND(symbol.st_info) == STB_GNU_UNIQUE && symbol.st_shndx != SHN_UNDEF) {
          return name_of(symbol);
        }
      }
    }
    return std::nullopt;
  }

 private:
  bool read_segments() {
    const auto header = file_.read_struct<Elf64_Ehdr>(0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        !has_native_structs(*header) || header->e_phentsize != sizeof(Elf64_Phdr)) {
      return false;
    }
    for (uint64_t i = 0; i < header->e_phnum; ++i) {
      const auto segment = file_.read_element<Elf64_Phdr>(header->e_phoff, i);
      if (!segment || !file_.holds(segment->p_offset, segment->p_filesz)) {
        return false;
      }
      if (segment->p_type == PT_LOAD) {
        loaded_.push_back(*segment);
      } else if (segment->p_type == PT_DYNAMIC) {
        dynamic_ = {.offset = segment->p_offset, .size = segment->p_filesz};
      }
    }
    return true;
  }

  bool read_dynamic() {
    const uint64_t count = std::min(dynamic_.size / sizeof(Elf64_Dyn), kMaxDynamicEntries);
    const auto entries = read_array<Elf64_Dyn>(dynamic_, 0, count);
    if (!entries) {
      return false;
    }
    for (const Elf64_Dyn& entry : *entries) {
      switch (entry.d_tag) {
        case DT_NULL:
          return true;
        case DT_SYMTAB:
          symbols_ = entry.d_un.d_ptr;
          break;
        case DT_STRTAB:
          names_ = entry.d_un.d_ptr;
          break;
        case DT_STRSZ:
          names_size_ = entry.d_un.d_val;
          break;
        case DT_HASH:
          hash_ = entry.d_un.d_ptr;
          break;
        case DT_GNU_HASH:
          gnu_hash_ = entry.d_un.d_ptr;
          break;
        default:
          break;
      }
    }
    return true;
  }

  // Returns the bytes from an address to the end of its segment; none if it is in no segment.
  Extent extent_at(uint64_t address) const {
    for (const Elf64_Phdr& segment : loaded_) {
      if (segment.p_vaddr <= address && address - segment.p_vaddr < segment.p_filesz) {
        const uint64_t skipped = address - segment.p_vaddr;
        return {.offset = segment.p_offset + skipped, .size = segment.p_filesz - skipped};
      }
    }
    return {};
  }

  // Returns `count` elements at byte `begin` of an extent, or null if they are not all in it.
  // `count` must be at most kMaxSymbols.
  template <class T>
  std::optional<std::vector<T>> read_array(const Extent& extent,
                                           uint64_t begin,
                                           uint64_t count) const {
    if (begin > extent.size || count > (extent.size - begin) / sizeof(T)) {
      return std::nullopt;
    }
    const auto bytes = file_.read(extent.offset + begin, count * sizeof(T));
    if (!bytes) {
      return std::nullopt;
    }
    std::vector<T> values(count);
    if (count > 0) {
      std::memcpy(values.data(), bytes->data(), bytes->size());
    }
    return values;
  }

  // Returns the symbols that a lookup by name can find.
  SymbolRange exported_symbols() const {
    const SymbolRange range = gnu_hash_ != 0 ? symbols_of_gnu_hash() : symbols_of_hash();
    return range.end <= kMaxSymbols ? range : SymbolRange{};
  }

  SymbolRange symbols_of_hash() const {
    const auto header = read_array<uint32_t>(extent_at(hash_), 0, 2);
    // The number of buckets, then that of chain entries: one for each symbol.
    return header ? SymbolRange{.begin = 0, .end = header->at(1)} : SymbolRange{};
  }

  // The table orders the symbols by bucket. A bucket has the index of its first symbol, and an odd
  // chain entry marks the last symbol of a bucket.
  SymbolRange symbols_of_gnu_hash() const {
    const Extent hash = extent_at(gnu_hash_);
    const auto header = read_array<uint32_t>(hash, 0, 4);
    if (!header) {
      return {};
    }
    const uint64_t num_buckets = header->at(0);
    const uint64_t first = header->at(1);
    const uint64_t num_filter_words = header->at(2);
    const uint64_t buckets_at = 4 * sizeof(uint32_t) + num_filter_words * sizeof(uint64_t);
    const uint64_t chains_at = buckets_at + num_buckets * sizeof(uint32_t);
    if (num_buckets > kMaxSymbols) {
      return {};
    }
    const auto buckets = read_array<uint32_t>(hash, buckets_at, num_buckets);
    if (!buckets || buckets->empty()) {
      return {};
    }
    for (uint64_t i = std::ranges::max(*buckets); first <= i && i < kMaxSymbols; ++i) {
      const auto chain = read_array<uint32_t>(hash, chains_at + (i - first) * sizeof(uint32_t), 1);
      if (!chain) {
        return {};
      }
      if ((chain->front() & 1) != 0) {
        return {.begin = first, .end = i + 1};
      }
    }
    return {};
  }

  std::string name_of(const Elf64_Sym& symbol) const {
    Extent names = extent_at(names_);
    names.size = std::min(names.size, names_size_);
    if (symbol.st_name >= names.size) {
      return "?";
    }
    const uint64_t size = std::min<uint64_t>(names.size - symbol.st_name, kMaxNameBytes);
    std::string name = file_.read(names.offset + symbol.st_name, size).value_or("?");
    const std::size_t end = name.find('\0');
    name = end != std::string::npos ? name.substr(0, end) : name + "...";
    std::ranges::replace_if(
        name, [](char c) { return c < '!' || c > '~'; }, '?');
    return name;
  }

  const ElfFile& file_;
  std::vector<Elf64_Phdr> loaded_;
  Extent dynamic_;
  // Addresses; 0 if the dynamic segment has none.
  uint64_t symbols_ = 0;
  uint64_t names_ = 0;
  uint64_t names_size_ = 0;
  uint64_t hash_ = 0;
  uint64_t gnu_hash_ = 0;
};

}  // namespace

std::optional<std::string> find_unique_symbol(const std::string& file) {
  const ElfFile opened(file);
  return opened.problem().empty() ? SymbolReader(opened).run() : std::nullopt;
}

}  // namespace tenon
