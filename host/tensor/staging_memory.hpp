// SPDX-License-Identifier: Apache-2.0
//
// Host memory for repeated copies of tensors that are written out. The memory of a copy is kept for
// the next copy: page faults of new memory would take longer than the copy. Memory comes from the
// kernel and not from malloc, so that copies do not fragment the heap.
// Invariant: kept and used memory together never exceed the largest set of copies in use at once.
// Threads: any.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

namespace tenon {

// Functions that pin memory for fast copies from a GPU, and unpin it before it is freed.
struct StagingPins {
  // Returns false if the memory cannot be pinned; it is then used unpinned.
  bool (*pin)(void* memory, size_t bytes) = nullptr;
  void (*unpin)(void* memory) = nullptr;
};

// Pins new memory for copies of GPU tensors from now on.
//
// Threads  [main], before the first copy
void use_staging_pins(const StagingPins& pins);

// Prepares memory for one copy of `bytes` bytes, of a GPU tensor if `is_of_gpu`. The copy then need
// not wait for the system. Does nothing for small copies.
void prepare_staging(size_t bytes, bool is_of_gpu);

// Returns a contiguous copy of a tensor in host memory. Its memory is kept for reuse when the last
// tensor that refers to it is destroyed.
//
// Shapes  as `values`
at::Tensor staged_copy(const at::Tensor& values);

// Returns an uninitialized tensor in such memory.
at::Tensor staged_empty(at::IntArrayRef sizes, at::ScalarType dtype);

}  // namespace tenon
