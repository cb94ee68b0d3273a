// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/stop_flag.hpp"

#include <atomic>

namespace tenon {
namespace {

std::atomic<bool> is_requested_now = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler sets it

}  // namespace

void set_stop_requested(bool is_requested) noexcept {
  is_requested_now.store(is_requested, std::memory_order_relaxed);
}

bool is_stop_requested() noexcept {
  return is_requested_now.load(std::memory_order_relaxed);
}

}  // namespace tenon
