// SPDX-License-Identifier: Apache-2.0
//
// Host memory for copies that are made, written away and made again: what a copy has lain in is
// kept for the next one. New memory would cost a page fault for every page of each copy, which
// takes longer than copying it. It is the kernel's own, beside malloc's: copies leave no holes
// there. Invariant: what is kept and what is in use are never more than the largest set of copies
// that was in use at once.
// Threads: any.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

namespace tenon {

// What makes memory fit for fast copies from a GPU, and takes that back before the memory goes.
struct StagingPins {
  // False if the memory cannot be pinned: it is used as it is.
  bool (*pin)(void* memory, size_t bytes) = nullptr;
  void (*unpin)(void* memory) = nullptr;
};

// From here on new memory for copies of a GPU's tensors is pinned.
//
// Threads  [main], before the first copy
void use_staging_pins(const StagingPins& pins);

// Makes memory ready for one copy of `bytes` bytes, of a GPU's tensor or another: the copy need
// not wait for the system then. Small ones need none.
void prepare_staging(size_t bytes, bool is_of_gpu);

// A copy of a tensor, contiguous and in host memory. Its memory is kept for others when the last
// tensor that refers to it is gone.
//
// Shapes  as `values`
at::Tensor staged_copy(const at::Tensor& values);

// As much memory for other values, likewise kept: they are whatever was there.
at::Tensor staged_empty(at::IntArrayRef sizes, at::ScalarType dtype);

}  // namespace tenon
