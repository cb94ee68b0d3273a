// SPDX-License-Identifier: Apache-2.0
//
// Counts the memory that meta tensors would have: bytes that are there, and the most there were at
// once. No memory is given out.
// Invariant: one at a time; tensors that were made meanwhile may live on.
// Threads: [main]
#pragma once

#include <c10/core/Allocator.h>

#include <cstdint>

namespace tenon {

class MetaMemory {
 public:
  MetaMemory();
  ~MetaMemory();
  MetaMemory(const MetaMemory&) = delete;
  MetaMemory& operator=(const MetaMemory&) = delete;

  int64_t live() const;
  void begin_peak();     // from what is there now
  int64_t peak() const;  // since then

 private:
  c10::Allocator* before_;
};

}  // namespace tenon
