// SPDX-License-Identifier: Apache-2.0

#include "host/device/host_memory.hpp"

#include "host/error/error.hpp"
#include "host/tensor/handle.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Context.h>
#include <ATen/Functions.h>

#include <algorithm>
#include <new>
#include <string>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace tenon {

bool can_pin_memory() {
  return at::globalContext().hasCUDA();
}

at::Tensor empty_host_tensor(uint32_t dtype, at::IntArrayRef shape) {
  const std::optional<at::ScalarType> type = scalar_type_of(dtype);
  if (!type) {
    throw Error("tensor.bad_argument", formatted("{} is not a dtype of tenon/tensor.h", dtype));
  }
  if (std::ranges::any_of(shape, [](int64_t size) { return size < 0; })) {
    throw Error("tensor.bad_argument", "a tensor on the host has an axis of negative size");
  }
  // libtorch's CPU allocator aligns to 64 bytes, its pinned allocator to more.
  return at::empty(shape, at::TensorOptions().dtype(*type).pinned_memory(can_pin_memory()));
}

void keep_freed_memory() noexcept {
#ifdef __GLIBC__
  // glibc maps each block above a threshold separately, unmaps it when it is freed, and trims the
  // end of the heap. A step that frees and creates the same tensors then page-faults them again.
  // This takes a quarter of the time of an elementwise operator on a few megabytes. Older releases
  // allow a threshold of at most 32 MiB.
  constexpr int kOneGiB = 1 << 30;
  constexpr int kNever = -1;
  if (mallopt(M_MMAP_THRESHOLD, kOneGiB) == 0) {
    mallopt(M_MMAP_THRESHOLD, kOneGiB / 32);
  }
  mallopt(M_TRIM_THRESHOLD, kNever);
#endif
}

}  // namespace tenon
