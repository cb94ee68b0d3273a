// SPDX-License-Identifier: Apache-2.0
//
// A piece of virtual memory that grows in place, for arrays of unknown, possibly huge size: address
// space is reserved ahead, memory is taken as it is committed, filled with zeros, and beyond the
// first 2 MiB in huge pages where the system has them. Nothing is copied when it grows.
// Invariant: what was committed stays until the end. Threads: one at a time.

#pragma once

#include <cstddef>

namespace tenon {

// The least multiple of `to` that is at least `n`.
inline size_t round_up(size_t n, size_t to) {
  return (n + to - 1) / to * to;
}

class MemoryRegion {
 public:
  // Reserves address space and no memory.
  //
  // Errors  table.full: the process may have no more address space
  explicit MemoryRegion(size_t reserve_bytes);
  ~MemoryRegion();
  MemoryRegion(MemoryRegion&& other) noexcept;
  MemoryRegion& operator=(MemoryRegion&& other) noexcept;
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;

  // On a boundary of a page.
  std::byte* data() const { return data_; }
  size_t reserved() const { return reserved_; }
  // At most what was reserved.
  size_t committed() const { return committed_; }

  // What `commit` of so many bytes would take in all: whole pages.
  static size_t rounded(size_t bytes);

  // Makes at least the first `bytes` usable. Beyond what was reserved, the region moves to another
  // address with all that it holds: no byte is copied, but pointers into it end.
  //
  // Errors  table.full: the system has no more memory
  void commit(size_t bytes);

 private:
  void release() noexcept;

  std::byte* data_ = nullptr;
  size_t reserved_ = 0;
  size_t committed_ = 0;
};

}  // namespace tenon
