// SPDX-License-Identifier: Apache-2.0
//
// Assigns the samples of a window to data-parallel ranks, as arithmetic on positions of the global
// order. order.hpp maps positions to samples.
// Invariants: every rank takes part in the same global microbatches; together they take each
// position once; the position reached is the complete state, for any number of ranks.
// Threads: a value; const functions from any.

#pragma once

#include <cstdint>

namespace tenon {

// Larger than any dataset; the sum of two such numbers does not overflow.
inline constexpr int64_t kMostSamples = int64_t{1} << 62;

// Treatment of samples at the end of a window that do not fill a global batch.
enum class Remainder { kShort, kDrop };

// Position of this process among the ranks that read different data.
struct DataRank {
  int64_t rank = 0;
  int64_t size = 1;
};

// One rank's part of one global microbatch: positions [first, first + count) of the global order.
struct Share {
  int64_t first = 0;
  int64_t count = 0;         // 0: this rank takes part without samples
  int64_t cursor_after = 0;  // position of all ranks together after it
};

class RankSampler {
 public:
  // `num_samples` is the size of the window, from 0 to 2^62; `batch_size` is the number of samples
  // in the microbatch of one rank. With kDrop, only multiples of `samples_per_step` are assigned.
  // `samples_per_step` is a multiple of one global microbatch; 0 means one.
  RankSampler(int64_t num_samples,
              int64_t batch_size,
              DataRank rank,
              Remainder last = Remainder::kShort,
              int64_t samples_per_step = 0);

  // True if a global microbatch starts at `cursor`.
  bool has_share(int64_t cursor) const;
  // Returns this rank's part of the global microbatch at `cursor`. Any `cursor` is valid, since
  // ranks and batch size may have changed. An incomplete global microbatch is split evenly; the
  // first ranks take one sample more.
  Share share(int64_t cursor) const;

  // Returns the number of global microbatches from `cursor` on.
  int64_t num_left(int64_t cursor) const;
  // Returns the number of samples at the end of the window that are dropped after `cursor`.
  int64_t num_dropped(int64_t cursor) const;
  int64_t num_samples() const { return num_samples_; }

 private:
  int64_t num_samples_;
  int64_t per_microbatch_;  // of all ranks together
  int64_t end_;             // positions from here on are not assigned
  DataRank rank_;
  Remainder last_;
};

}  // namespace tenon
