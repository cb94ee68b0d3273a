// SPDX-License-Identifier: Apache-2.0
#include "host/device/large_blocks.hpp"

#include <algorithm>
#include <limits>
#include <sys/mman.h>

namespace tenon {
namespace {

constexpr size_t kBoundary = 64;
// Sizes are whole pages plus kBoundary, so that consecutive blocks do not start at the same offset
// in a page. Loads and stores whose addresses agree in the last 12 bits wait for each other.
constexpr size_t kPage = 4096;
// Unit in which the range is made writable, in bytes.
constexpr size_t kOpened = size_t{4} << 20;
constexpr size_t kMostBytes = std::numeric_limits<size_t>::max() / 4;

constexpr size_t rounded_up(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}

}  // namespace

LargeBlocks::LargeBlocks(size_t range_bytes) {
  void* const range =
      ::mmap(nullptr, range_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) {
    return;
  }
  begin_ = static_cast<char*>(range);
  range_bytes_ = range_bytes;
  top_ = begin_;
  open_ = begin_;
}

LargeBlocks::~LargeBlocks() {
  if (begin_ != nullptr) {
    ::munmap(begin_, range_bytes_);
  }
}

size_t LargeBlocks::size_for(size_t bytes) {
  return rounded_up(bytes, kPage) + kBoundary;
}

void* LargeBlocks::take(size_t bytes) {
  if (bytes > kMostBytes) {
    return nullptr;
  }
  bytes = size_for(bytes);
  const std::lock_guard lock(mutex_);
  auto block = blocks_.end();
  if (const auto best = free_.lower_bound({bytes, nullptr}); best != free_.end()) {
    block = blocks_.find(best->second);
    free_.erase(best);
  } else if (block = grown(bytes); block == blocks_.end()) {
    return nullptr;
  }
  use(block, bytes);
  return block->first;
}

// Returns a free block at the top that is not in free_, or end() if there is no memory for it.
LargeBlocks::Blocks::iterator LargeBlocks::grown(size_t bytes) {
  const auto last = blocks_.empty() ? blocks_.end() : std::prev(blocks_.end());
  const bool goes_on = last != blocks_.end() && last->second.is_free;
  char* const begin = goes_on ? last->first : top_;
  if (static_cast<size_t>(begin_ + range_bytes_ - begin) < bytes) {
    return blocks_.end();
  }
  char* const end = begin + bytes;
  if (end > open_) {
    const size_t more = std::min(rounded_up(static_cast<size_t>(end - open_), kOpened),
                                 static_cast<size_t>(begin_ + range_bytes_ - open_));
    if (::mprotect(open_, more, PROT_READ | PROT_WRITE) != 0) {
      return blocks_.end();
    }
    open_ += more;
  }
  top_ = end;
  if (goes_on) {
    free_.erase({last->second.bytes, last->first});
    last->second.bytes = bytes;
    return last;
  }
  return blocks_.try_emplace(begin, Block{.bytes = bytes, .is_free = true}).first;
}

// Takes the first `bytes` of a free block that is not in free_, and adds the remainder to free_.
void LargeBlocks::use(Blocks::iterator block, size_t bytes) {
  const size_t over = block->second.bytes - bytes;
  if (over >= kPage) {
    block->second.bytes = bytes;
    char* const rest = block->first + bytes;
    blocks_.emplace_hint(std::next(block), rest, Block{.bytes = over, .is_free = true});
    free_.emplace(over, rest);
  }
  block->second.is_free = false;
}

size_t LargeBlocks::size_of(const void* memory) const {
  const std::lock_guard lock(mutex_);
  return blocks_.at(const_cast<char*>(static_cast<const char*>(memory))).bytes;
}

void LargeBlocks::give_back(void* memory) {
  const std::lock_guard lock(mutex_);
  auto block = blocks_.find(static_cast<char*>(memory));
  block->second.is_free = true;
  if (const auto next = std::next(block); next != blocks_.end() && next->second.is_free) {
    free_.erase({next->second.bytes, next->first});
    block->second.bytes += next->second.bytes;
    blocks_.erase(next);
  }
  if (block != blocks_.begin()) {
    if (const auto before = std::prev(block); before->second.is_free) {
      free_.erase({before->second.bytes, before->first});
      before->second.bytes += block->second.bytes;
      blocks_.erase(block);
      block = before;
    }
  }
  free_.emplace(block->second.bytes, block->first);
}

size_t LargeBlocks::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(top_ - begin_);
}

}  // namespace tenon
