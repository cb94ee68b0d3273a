// SPDX-License-Identifier: Apache-2.0
//
// Maps each position of the global order to a sample of a window, for map-style data: a keyed
// bijection of [0, n). It uses no memory, and every position takes the same time.
// Invariant: the order depends only on seed, epoch, window and n; every rank computes the same
// order.
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

  // Returns the sample at `position`, both in [0, n).
  int64_t index(int64_t position) const;

  int64_t size() const { return n_; }

 private:
  uint64_t seed_;
  uint64_t stream_;  // of epoch and window
  int64_t n_;
  Shuffle shuffle_;
};

}  // namespace tenon
