// SPDX-License-Identifier: Apache-2.0
//
// Maps each position in the epoch of a mix to a source and a sample, for sources with numbered
// samples. The turns are those of interleave.hpp, limited by the ends of sources. order.hpp defines
// the order within a source.
// Invariants: the order depends only on the constructor's arguments; every position takes the same
// time; with one source, the order is that of the source.
// Threads: a value; const functions from any.

#pragma once

#include "host/data/interleave.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon {

// Behavior of a mix when a source has no sample left.
enum class WhenOneEnds {
  kRepeat,    // the source starts over; the epoch ends when each source was read once
  kStop,      // the epoch ends at the next turn of the source
  kContinue,  // other sources continue; an epoch has each sample of each source once
};

// "repeat", "stop", "continue".
const char* word_of(WhenOneEnds when);

class MixOrder {
 public:
  struct Sample {
    std::size_t source = 0;
    uint64_t pass = 0;     // number of earlier complete passes over the source
    int64_t position = 0;  // in the source's order of that pass
  };

  // Requires as many weights as sizes. Weights are as in Interleave; a source of positive weight
  // has at least one sample.
  //
  // Errors   data.bad_mix if an epoch would have more than 2^62 samples
  MixOrder(uint64_t seed,
           const std::vector<double>& weights,
           std::vector<int64_t> sizes,
           WhenOneEnds when);

  // Samples of an epoch.
  int64_t num_samples() const { return num_samples_; }
  // Returns the sample at `position`, in [0, num_samples()), of an epoch.
  //
  // Errors   data.bad_mix if the positions of all epochs together exceed 2^62
  Sample at(uint64_t epoch, int64_t position) const;
  // Returns the samples of each source before `position`, in [0, num_samples()], in this epoch.
  std::vector<int64_t> counts(uint64_t epoch, int64_t position) const;

 private:
  // A range of positions from `begin` on, with the remaining sources.
  struct Stretch {
    int64_t begin = 0;
    std::vector<int64_t> before;  // samples of each source at `begin`
    Interleave turns;
  };

  int64_t length_of(const Interleave& turns, const std::vector<int64_t>& left) const;
  const Stretch& stretch_of(int64_t position) const;
  int64_t run_position(uint64_t epoch, int64_t position) const;
  std::vector<int64_t> counts_at(int64_t position) const;

  std::vector<double> weights_;
  std::vector<int64_t> sizes_;
  WhenOneEnds when_;
  std::vector<Stretch> stretches_;  // exactly one, except with kContinue
  int64_t num_samples_ = 0;
};

}  // namespace tenon
