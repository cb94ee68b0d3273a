// SPDX-License-Identifier: Apache-2.0
//
// libtorch's allocator of CPU memory, with a cache that keeps freed small blocks for the next
// tensor of the same size. glibc allocates aligned memory on its slow path only, which took a tenth
// of the time of short steps. Large blocks have a separate range (large_blocks.hpp).
// Only for the memory of CPU tensors.
// Invariant: the cache is bounded, and is freed before an allocation fails.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenon {

// Makes all CPU tensors of the process, including those of plugins, use the cache. Blocks are
// aligned to 64 bytes, as without the cache. Does nothing under the address and thread sanitizers,
// because they would miss uses of freed blocks.
//
// Threads  [main], once, before other threads
void use_block_cache();

// Returns the bytes of freed blocks that the cache keeps now.
//
// Threads  [any]
size_t block_cache_bytes();

// Memory of all CPU tensors created since use_block_cache(), without freed blocks in the cache.
struct TensorMemory {
  int64_t bytes = 0;
  int64_t peak_bytes = 0;  // highest value so far
};

// Returns zeros if the cache is not in use.
//
// Threads  [any]
TensorMemory cpu_tensor_memory();

// Returns the bytes that cpu_tensor_memory() counts for a tensor of `bytes` bytes, more than 0. A
// reused large block may have up to a page more.
//
// Threads  [any]
int64_t cpu_block_bytes(int64_t bytes);

}  // namespace tenon
