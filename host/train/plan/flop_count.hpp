// SPDX-License-Identifier: Apache-2.0
//
// Counts the floating-point operations of the operators that run on a thread.
// Source  the product of [m, k] and [k, n] is m n k multiplications and as many additions
// Threads: an object counts on the thread that made it, and one object at a time.
#pragma once

#include <cstdint>

namespace tenon {

// Counts matrix products, convolutions and attention while it lives; other operators are small
// beside them and count 0.
class FlopCount {
 public:
  FlopCount();
  ~FlopCount();
  FlopCount(const FlopCount&) = delete;
  FlopCount& operator=(const FlopCount&) = delete;

  // Operations since the last call. Reads shapes, so that tensors on the meta device count, too.
  double take();

 private:
  uint64_t handle_;  // of the callback, at::CallbackHandle
  double flops_ = 0;
};

}  // namespace tenon
