// SPDX-License-Identifier: Apache-2.0
//
// Access to the bytes of an ELF file, for the readers of its parts. Nothing is mapped, so a file
// that shrinks meanwhile causes an error and not a signal.

#pragma once

#include <cstdint>
#include <cstring>
#include <elf.h>
#include <optional>
#include <string>

namespace tenon {

class ElfFile {
 public:
  // Opens `path`. On failure, problem() has the reason, and nothing can be read.
  explicit ElfFile(const std::string& path);
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;
  ~ElfFile();

  const std::string& problem() const noexcept { return problem_; }
  uint64_t size() const noexcept { return size_; }
  bool holds(uint64_t offset, uint64_t size) const noexcept {
    return offset <= size_ && size <= size_ - offset;
  }

  // Returns all `size` bytes at `offset`, or null. Allocates at most the size of the file.
  std::optional<std::string> read(uint64_t offset, uint64_t size) const;

  template <class T>
  std::optional<T> read_struct(uint64_t offset) const {
    const std::optional<std::string> bytes = read(offset, sizeof(T));
    if (!bytes) {
      return std::nullopt;
    }
    T value;
    std::memcpy(&value, bytes->data(), sizeof(T));
    return value;
  }

  // Returns element `i` of a table, or null. `i` must be below 2^32.
  template <class T>
  std::optional<T> read_element(uint64_t table, uint64_t i) const {
    // A table that begins in the file ends far below 2^64.
    return table <= size_ ? read_struct<T>(table + i * sizeof(T)) : std::nullopt;
  }

 private:
  int fd_;
  uint64_t size_ = 0;
  std::string problem_;
};

// True if the 64-bit little-endian structs of <elf.h> match a file with this header.
bool has_native_structs(const Elf64_Ehdr& header) noexcept;

}  // namespace tenon
