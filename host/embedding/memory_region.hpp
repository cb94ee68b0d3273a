// SPDX-License-Identifier: Apache-2.0
//
// A range of virtual memory that grows in place, for arrays of unknown, possibly huge size. Address
// space is reserved in advance, and memory is allocated on commit, filled with zeros. Beyond the
// first 2 MiB, it uses huge pages if the system has them. Growing copies nothing.
// Invariant: committed memory stays committed for the life of the region.
// Threads: one at a time.

#pragma once

#include <cstddef>

namespace tenon {

// Returns the smallest multiple of `to` that is at least `n`.
inline size_t round_up(size_t n, size_t to) {
  return (n + to - 1) / to * to;
}

class MemoryRegion {
 public:
  // Reserves address space but no memory.
  //
  // Errors  table.full: the process is at its limit of address space
  explicit MemoryRegion(size_t reserve_bytes);
  ~MemoryRegion();
  MemoryRegion(MemoryRegion&& other) noexcept;
  MemoryRegion& operator=(MemoryRegion&& other) noexcept;
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;

  // Page-aligned.
  std::byte* data() const { return data_; }
  size_t reserved() const { return reserved_; }
  // At most reserved().
  size_t committed() const { return committed_; }

  // Returns the total memory that commit(bytes) takes, in bytes: whole pages.
  static size_t rounded(size_t bytes);

  // Makes at least the first `bytes` usable. If `bytes` exceeds the reserved size, the region moves
  // to another address with its content. No byte is copied, but pointers into it become invalid.
  //
  // Errors  table.full: the system has no more memory or address space
  void commit(size_t bytes);

 private:
  void release() noexcept;

  std::byte* data_ = nullptr;
  size_t reserved_ = 0;
  size_t committed_ = 0;
};

}  // namespace tenon
