// SPDX-License-Identifier: Apache-2.0
//
// Reads the dynamic segment of an ELF library as the dynamic linker does: through addresses and a
// hash table. Sections, which strip may remove, are not used.
// Invariant: for any content, reading terminates in bounded memory.
// Threads: one at a time for an object.
// Source: System V Application Binary Interface (gABI 4.1), chapter 5, "Dynamic Section" and "Hash
// Table". The layout of DT_GNU_HASH is that of GNU binutils (elflink.c).
#pragma once

#include "host/trust/elf/elf_file.hpp"

#include <cstdint>
#include <cstring>
#include <elf.h>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// Part of the file, inside of it.
struct ElfExtent {
  uint64_t offset = 0;
  uint64_t size = 0;
};

// Range of indices into the symbol table.
struct ElfSymbolRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

class ElfImage {
 public:
  // More symbols than any plugin has, and few enough to read at every start.
  static constexpr uint64_t kMaxSymbols = 1 << 20;

  // `file` is borrowed. If the file cannot be read, is_readable() is false.
  explicit ElfImage(const ElfFile& file);

  bool is_readable() const noexcept { return is_readable_; }

  // The program headers, and the entries of the dynamic segment before DT_NULL.
  const std::vector<Elf64_Phdr>& segments() const noexcept { return segments_; }
  const std::vector<Elf64_Dyn>& dynamic() const noexcept { return dynamic_; }

  // Returns the value of the first entry with this tag; null if there is none.
  std::optional<uint64_t> value_of(int64_t tag) const noexcept;

  // Returns the bytes from an address to the end of its segment; none if it is in no segment.
  ElfExtent extent_at(uint64_t address) const noexcept;

  // Returns the text at an offset of the dynamic string table. Long texts are cut, and control
  // characters replaced.
  std::string text_at(uint64_t offset) const;

  // Returns the symbols that a lookup by name can find.
  ElfSymbolRange exported_symbols() const;
  // Returns `count` symbols from `begin`; null if they are not all in the file.
  std::optional<std::vector<Elf64_Sym>> read_symbols(uint64_t begin, uint64_t count) const;

  // Returns `count` elements at byte `begin` of an extent, or null if they are not all in it.
  // `count` must be at most kMaxSymbols.
  template <class T>
  std::optional<std::vector<T>> read_array(const ElfExtent& extent,
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

 private:
  bool read_segments();
  bool read_dynamic();
  ElfSymbolRange symbols_of_hash(uint64_t address) const;
  ElfSymbolRange symbols_of_gnu_hash(uint64_t address) const;

  const ElfFile& file_;
  bool is_readable_ = false;
  std::vector<Elf64_Phdr> segments_;
  ElfExtent dynamic_extent_;
  std::vector<Elf64_Dyn> dynamic_;
};

}  // namespace tenon
