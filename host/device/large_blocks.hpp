// SPDX-License-Identifier: Apache-2.0
//
// Memory for large tensors, beside malloc's heap: blocks of one range of addresses. A freed block
// is joined with free neighbors and given out again, the smallest that fits first. In malloc's
// heap what is small comes to lie where a large block was free, and the next large one has to be
// created again: a step that needs 1,300 MiB at most took 1,600, and 1,800 with checkpoints.
// Memory is never given back to the system, so that a step does not fault its pages in again.
// Not for small blocks: each is looked up in a tree.
// Invariant: blocks cover the range up to its top, and no two free ones touch.
// Threads: any, for all functions.
#pragma once

#include <cstddef>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace tenon {

class LargeBlocks {
 public:
  // Reserves addresses, and no memory yet. Where that is refused (a limit on addresses), take()
  // gives nothing.
  explicit LargeBlocks(size_t range_bytes);
  ~LargeBlocks();
  LargeBlocks(const LargeBlocks&) = delete;
  LargeBlocks& operator=(const LargeBlocks&) = delete;

  // A block of at least `bytes` bytes, on a 64-byte boundary; null if there is no memory or no
  // room in the range.
  void* take(size_t bytes);

  // True for memory that take() gave.
  bool owns(const void* memory) const { return memory >= begin_ && memory < begin_ + range_bytes_; }

  // Of a block in use.
  size_t size_of(const void* memory) const;
  void give_back(void* memory);

  // Bytes from the begin of the range to its top: what the system has given.
  size_t held_bytes() const;

 private:
  struct Block {
    size_t bytes = 0;
    bool is_free = false;
  };
  using Blocks = std::map<char*, Block>;

  Blocks::iterator grown(size_t bytes);
  void use(Blocks::iterator block, size_t bytes);

  char* begin_ = nullptr;
  size_t range_bytes_ = 0;
  mutable std::mutex mutex_;
  char* top_ = nullptr;   // of the blocks
  char* open_ = nullptr;  // of what may be written to; from top_ on
  Blocks blocks_;
  std::set<std::pair<size_t, char*>> free_;
};

}  // namespace tenon
