// SPDX-License-Identifier: Apache-2.0
//
// The distinct ids among many, in order of first occurrence. A step uses it to look up each id
// once, however often its batches contain the id. A small hash table that is cleared and reused.
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

class DistinctIds {
 public:
  // Returns the position of `id`. Appends `id` if it is new.
  uint32_t add(int64_t id);

  size_t size() const { return ids_.size(); }
  // All ids, by position.
  std::span<const int64_t> ids() const { return ids_; }

  // Removes all ids but keeps the memory.
  void clear();

 private:
  void grow();

  std::vector<int64_t> ids_;
  std::vector<uint32_t> slots_;  // size is a power of two; position + 1, or 0 if free
};

}  // namespace tenon
