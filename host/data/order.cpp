// SPDX-License-Identifier: Apache-2.0

#include "host/data/order.hpp"

#include "host/data/rank_sampler.hpp"
#include "host/error/assert.hpp"
#include "host/tensor/philox.hpp"

namespace tenon {

SampleOrder::SampleOrder(const SampleOrderKey& key, int64_t n, Shuffle shuffle)
    : seed_(key.seed),
      stream_(mix_seeds(mix_seeds(stream_of("data.order"), key.epoch), key.window_id)),
      n_(n),
      shuffle_(shuffle) {
  TENON_ASSERT(n >= 0 && n <= kMostSamples, "not a number of samples");
}

int64_t SampleOrder::index(int64_t position) const {
  TENON_ASSERT(position >= 0 && position < n_, "a position outside the window");
  if (shuffle_ == Shuffle::kNo) {
    return position;
  }
  return static_cast<int64_t>(
      permute(seed_, stream_, static_cast<uint64_t>(n_), static_cast<uint64_t>(position)));
}

}  // namespace tenon
