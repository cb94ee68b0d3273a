// SPDX-License-Identifier: Apache-2.0
//
// Memory that this process can still allocate: the least of what the machine has, what its control
// groups allow, and what its resource limits (ulimit) allow.
// Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tenon {

struct AvailableMemory {
  int64_t bytes = 0;  // never negative
  std::string limit;  // what limits it: "the machine", "the control group /sys/fs/cgroup/..."
};

// Returns nothing if nothing is known. Counts free swap, and memory that the kernel can reclaim.
// `root` replaces "/", for tests.
std::optional<AvailableMemory> available_memory(const std::string& root = "/");

// Limits the memory of this process to what is available, so that an allocation beyond it fails
// instead of ending another process of the machine. The destructor restores the limit.
class MemoryLimit {
 public:
  MemoryLimit();
  ~MemoryLimit();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  std::optional<uint64_t> before_;  // RLIMIT_DATA; nothing if it is unchanged
};

}  // namespace tenon
