// SPDX-License-Identifier: Apache-2.0
//
// Which sample of a window stands at which position of the global order, for data that is read by
// index: a keyed bijection of [0, n). It takes no memory, and any position costs the same.
// Invariant: the order depends on seed, epoch, window and n alone; every rank computes the same.
// Threads: a value; const functions from any.

#pragma once

#include <cstdint>

namespace tenon {

struct SampleOrderKey {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t window_id = 0;  // 0 if there are no windows
};

class SampleOrder {
 public:
  enum class Shuffle { kNo, kYes };

  // An order of `n` samples, 0 <= n <= 2^62.
  SampleOrder(const SampleOrderKey& key, int64_t n, Shuffle shuffle);

  // The sample at `position`, both in [0, n).
  int64_t index(int64_t position) const;

  int64_t size() const { return n_; }

 private:
  uint64_t seed_;
  uint64_t stream_;  // of epoch and window
  int64_t n_;
  Shuffle shuffle_;
};

}  // namespace tenon
