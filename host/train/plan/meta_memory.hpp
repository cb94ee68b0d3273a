// SPDX-License-Identifier: Apache-2.0
//
// Counts the memory that meta tensors would take: bytes in use now and at the peak. Allocates
// nothing.
// Invariant: one object at a time; tensors created during its lifetime may outlive it.
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
  void begin_peak();     // resets the peak to live()
  int64_t peak() const;  // since begin_peak()

 private:
  c10::Allocator* before_;
};

}  // namespace tenon
