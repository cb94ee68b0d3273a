// SPDX-License-Identifier: Apache-2.0
//
// Memory for large tensors, separate from malloc's heap: blocks in one range of addresses. A freed
// block is merged with free neighbors and reused; the smallest block that fits is taken first. In
// malloc's heap, small blocks fill the space of freed large blocks, and the next large block needs
// new memory. A step with a peak of 1,300 MiB took 1,600 MiB, and 1,800 MiB with checkpoints.
// Memory is never returned to the system, so that steps do not page-fault it again.
// Not for small blocks: each is looked up in a tree.
// Invariant: blocks cover the range up to its top, and no two free blocks are adjacent.
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
  // Reserves addresses but no memory. If the system refuses (limit of address space), take()
  // returns null.
  explicit LargeBlocks(size_t range_bytes);
  ~LargeBlocks();
  LargeBlocks(const LargeBlocks&) = delete;
  LargeBlocks& operator=(const LargeBlocks&) = delete;

  // Bytes of the block that take() returns.
  static size_t size_for(size_t bytes);
  // Returns a block of at least `bytes` bytes, aligned to 64 bytes; null if there is no memory or
  // no room in the range.
  void* take(size_t bytes);

  // True for memory from take().
  bool owns(const void* memory) const { return memory >= begin_ && memory < begin_ + range_bytes_; }

  // Bytes of a block in use.
  size_t size_of(const void* memory) const;
  void give_back(void* memory);

  // Bytes from the start of the range to its top: memory taken from the system.
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
  char* top_ = nullptr;   // end of the blocks
  char* open_ = nullptr;  // end of writable memory, at or above top_
  Blocks blocks_;
  std::set<std::pair<size_t, char*>> free_;
};

}  // namespace tenon
