// SPDX-License-Identifier: Apache-2.0
//
// Host memory that batches are read into: pinned if there is a GPU to copy them to.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tenon {

// Returns true if host memory can be pinned, that is, if a GPU has been opened. Copies from pinned
// memory to a GPU run concurrently with computation.
//
// Threads  [any], after the run's device is opened: libtorch remembers its first answer
bool can_pin_memory();

// Returns a contiguous CPU tensor with undefined content, aligned to 64 bytes.
//
// Errors   tensor.bad_argument for an unknown dtype or a negative size; c10::Error if out of memory
// Threads  [any]
at::Tensor empty_host_tensor(uint32_t dtype, at::IntArrayRef shape);

// Keeps freed blocks of memory in the process instead of returning them to the kernel. Otherwise
// each large tensor of a step is mapped and page-faulted again.
//
// Threads  [main], once, before other threads
void keep_freed_memory() noexcept;

}  // namespace tenon
