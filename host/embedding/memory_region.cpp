// SPDX-License-Identifier: Apache-2.0

#include "host/embedding/memory_region.hpp"

#include "host/error/error.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <utility>

namespace tenon {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSmallStep = size_t{64} << 10;

[[noreturn]] void fail(const char* what, size_t bytes) {
  throw Error("table.full",
              formatted("the system gave no {} for {} bytes of a table ({}); give the tables less "
                        "with `bytes` or `evict`, use more ranks, or raise the limit of the "
                        "process (ulimit -v, or its control group's)",
                        what,
                        bytes,
                        std::strerror(errno)));
}

// Reserves address space that starts on a huge-page boundary, without memory.
std::byte* reserve(size_t bytes) {
  void* raw = mmap(
      nullptr, bytes + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) {
    fail("address space", bytes);
  }
  auto* begin = static_cast<std::byte*>(raw);
  const size_t skip = (kHugePage - reinterpret_cast<uintptr_t>(raw) % kHugePage) % kHugePage;
  if (skip > 0) {
    munmap(begin, skip);
  }
  munmap(begin + skip + bytes, kHugePage - skip);
  if (bytes > kHugePage) {
    // A hint: a system without huge pages uses small ones.
    madvise(begin + skip + kHugePage, bytes - kHugePage, MADV_HUGEPAGE);
  }
  return begin + skip;
}

}  // namespace

MemoryRegion::MemoryRegion(size_t reserve_bytes)
    : reserved_(round_up(std::max<size_t>(reserve_bytes, 1), kHugePage)) {
  data_ = reserve(reserved_);
}

MemoryRegion::~MemoryRegion() {
  release();
}

MemoryRegion::MemoryRegion(MemoryRegion&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      reserved_(std::exchange(other.reserved_, 0)),
      committed_(std::exchange(other.committed_, 0)) {}

MemoryRegion& MemoryRegion::operator=(MemoryRegion&& other) noexcept {
  if (this != &other) {
    release();
    data_ = std::exchange(other.data_, nullptr);
    reserved_ = std::exchange(other.reserved_, 0);
    committed_ = std::exchange(other.committed_, 0);
  }
  return *this;
}

void MemoryRegion::release() noexcept {
  if (data_ != nullptr) {
    munmap(data_, reserved_);
  }
}

size_t MemoryRegion::rounded(size_t bytes) {
  return round_up(bytes, bytes <= kHugePage ? kSmallStep : kHugePage);
}

void MemoryRegion::commit(size_t bytes) {
  if (bytes <= committed_) {
    return;
  }
  const size_t wanted = rounded(bytes);
  if (wanted > reserved_) {
    const size_t larger = std::max(2 * reserved_, wanted);
    std::byte* to = reserve(larger);
    // Moves page tables, not pages. The rest of the new range stays reserved.
    if (committed_ > 0 &&
        mremap(data_, committed_, committed_, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED) {
      const int error = errno;
      munmap(to, larger);
      errno = error;
      fail("room to grow", wanted);
    }
    if (reserved_ > committed_) {
      munmap(data_ + committed_, reserved_ - committed_);
    }
    data_ = to;
    reserved_ = larger;
  }
  if (mprotect(data_ + committed_, wanted - committed_, PROT_READ | PROT_WRITE) != 0) {
    fail("memory", wanted);
  }
  committed_ = wanted;
}

}  // namespace tenon
