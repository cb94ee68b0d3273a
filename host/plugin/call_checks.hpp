// SPDX-License-Identifier: Apache-2.0
//
// The checking mode of calls into plugins (--check-plugins): around each call, the state of the
// process is compared, and tensors that a hook may only read are compared by content. It is for
// plugin authors: a checked run is much slower.
// Threads: set once before the first call; read by any.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>

namespace tenon {

extern constinit std::atomic<bool> are_calls_checked_now;

inline bool are_calls_checked() noexcept {
  return are_calls_checked_now.load(std::memory_order_relaxed);
}
void check_calls(bool is_wanted) noexcept;

// Returns a hash of the elements; 0 unless calls are checked.
uint64_t content_if_checked(const at::Tensor& tensor);

}  // namespace tenon
