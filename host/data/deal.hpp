// SPDX-License-Identifier: Apache-2.0
//
// How the samples of a window are assigned to data-parallel ranks: arithmetic on positions of the
// global order, nothing else. Which sample stands at a position is order.hpp's.
// Invariants: every rank takes part in the same global microbatches; together they take each
// position once; the position reached is all there is to know, whatever the number of ranks.
// Threads: a value; const functions from any.

#pragma once

#include <cstdint>

namespace tenon {

// Far beyond any data set, and far enough from the type's end that sums of two do not overflow.
inline constexpr int64_t kMostSamples = int64_t{1} << 62;

// What becomes of the samples that do not fill a global batch at the end of a window.
enum class Remainder { kShort, kDrop };

// Where this process stands among those that read different data.
struct DataRank {
  int64_t rank = 0;
  int64_t size = 1;
};

// One rank's part of one global microbatch: positions [first, first + count) of the global order.
struct Share {
  int64_t first = 0;
  int64_t count = 0;         // 0: this rank joins without a sample
  int64_t cursor_after = 0;  // the position that all ranks together have reached with it
};

class Deal {
 public:
  // `num_samples` of the window, any number from 0 to 2^62; `batch_size` samples for one rank's
  // microbatch. With kDrop only multiples of `samples_per_step` are dealt; 0 means one global
  // microbatch, otherwise it is a multiple of one.
  Deal(int64_t num_samples,
       int64_t batch_size,
       DataRank rank,
       Remainder last = Remainder::kShort,
       int64_t samples_per_step = 0);

  // True if a global microbatch begins at `cursor`.
  bool has_share(int64_t cursor) const;
  // This rank's part of the global microbatch at `cursor`, which need not be a multiple of
  // anything: ranks and batch size may have changed. What does not fill a global microbatch is
  // dealt evenly, the first ranks taking one more.
  Share share(int64_t cursor) const;

  // Global microbatches from `cursor` on.
  int64_t num_left(int64_t cursor) const;
  // Samples at the window's end that are never dealt to one who resumes from `cursor`.
  int64_t num_dropped(int64_t cursor) const;
  int64_t num_samples() const { return num_samples_; }

 private:
  int64_t num_samples_;
  int64_t per_microbatch_;  // of all ranks together
  int64_t end_;             // positions from here on are not dealt
  DataRank rank_;
  Remainder last_;
};

}  // namespace tenon
