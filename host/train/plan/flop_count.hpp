// SPDX-License-Identifier: Apache-2.0
//
// Counts the floating-point operations of the operators that run on a thread.
// Source  the product of [m, k] and [k, n] takes m n k multiplications and as many additions
// Threads: an object counts on the thread that created it; one object per thread at a time.
#pragma once

#include <cstdint>

namespace tenon {

// Counts matrix products and convolutions while it exists. Attention counts if it runs as matrix
// products. Other operators are comparatively small and count 0.
class FlopCount {
 public:
  FlopCount();
  ~FlopCount();
  FlopCount(const FlopCount&) = delete;
  FlopCount& operator=(const FlopCount&) = delete;

  // Returns the operations since the last call. Reads only shapes, so meta tensors count, too.
  double take();

 private:
  uint64_t handle_;  // at::CallbackHandle of the callback
  double flops_ = 0;
};

}  // namespace tenon
