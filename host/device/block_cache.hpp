// SPDX-License-Identifier: Apache-2.0
//
// libtorch's allocator of CPU memory, with freed small blocks kept for the next tensor of their
// size. glibc serves aligned memory from its slow path alone: where a step is short, that was a
// tenth of it.
// Not for memory of other kinds than that of CPU tensors; large blocks are left to malloc
// (keep_freed_memory).
// Invariant: what is kept is bounded, and given back before memory is said to be exhausted.
#pragma once

#include <cstddef>

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

}  // namespace tenon
