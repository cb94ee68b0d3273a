// SPDX-License-Identifier: Apache-2.0
//
// libtorch's allocator of CPU memory, with freed small blocks kept for the next tensor of their
// size. glibc serves aligned memory from its slow path alone: where a step is short, that was a
// tenth of it. Large blocks have their own range (large_blocks.hpp).
// Not for memory of other kinds than that of CPU tensors.
// Invariant: what is kept is bounded, and given back before memory is said to be exhausted.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenon {

// Makes tensors of the whole process, those of plugins included, use the cache. Blocks are on a
// 64-byte boundary, as without it. Does nothing under the address and thread sanitizers, which
// would no longer see who uses a block after its end.
//
// Threads  [main], once, before other threads
void use_block_cache();

// Bytes of freed blocks that are kept now.
//
// Threads  [any]
size_t block_cache_bytes();

// Memory of the CPU tensors that were made since use_block_cache(), whoever made them: freed blocks
// that are kept are not in it.
struct TensorMemory {
  int64_t bytes = 0;
  int64_t peak_bytes = 0;  // of the whole process
};

// Zero where the cache is not in use.
//
// Threads  [any]
TensorMemory cpu_tensor_memory();

}  // namespace tenon
