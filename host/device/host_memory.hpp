// SPDX-License-Identifier: Apache-2.0
//
// Memory on the host's side that batches are read into: pinned if there is a GPU to copy it to.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tenon {

// True if host memory can be pinned, so that copies to a GPU run beside the computation: a GPU has
// been opened.
//
// Threads  [any], once the run's device is open: libtorch remembers its first answer
bool can_pin_memory();

// A contiguous tensor on the CPU with undefined content, on a 64-byte boundary.
//
// Errors   tensor.bad_argument for an unknown dtype or a negative size; c10::Error without memory
// Threads  [any]
at::Tensor empty_host_tensor(uint32_t dtype, at::IntArrayRef shape);

// Keeps freed blocks of memory in the process instead of giving them back to the kernel. Without it
// each large tensor of a step is mapped and page-faulted again.
//
// Threads  [main], once, before other threads
void keep_freed_memory() noexcept;

}  // namespace tenon
