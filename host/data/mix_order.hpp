// SPDX-License-Identifier: Apache-2.0
//
// Which sample of which source stands at which position of a mixture's epoch, for sources whose
// samples are numbered: interleave.hpp's turns, cut where sources end. The order within a source is
// order.hpp's.
// Invariants: the order depends on the constructor's arguments alone; any position takes the same
// time; with one source it is the source's own.
// Threads: a value; const functions from any.

#pragma once

#include "host/data/interleave.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon {

// What becomes of a mixture when a source has no sample left.
enum class WhenOneEnds {
  kRepeat,    // it starts over; an epoch is over when each source has been read once
  kStop,      // the epoch is over where a sample of it would be next
  kContinue,  // the others continue without it; an epoch holds each sample of each source once
};

// "repeat", "stop", "continue".
const char* word_of(WhenOneEnds when);

class MixOrder {
 public:
  struct Sample {
    std::size_t source = 0;
    uint64_t pass = 0;     // of the source: how often it has been read whole before
    int64_t position = 0;  // in the source's order of that pass
  };

  // As many weights as sizes; weights as Interleave says; a source of weight above 0 has a sample.
  //
  // Errors   data.bad_mix if an epoch would have more than 2^62 samples
  MixOrder(uint64_t seed,
           const std::vector<double>& weights,
           std::vector<int64_t> sizes,
           WhenOneEnds when);

  // Samples of an epoch.
  int64_t num_samples() const { return num_samples_; }
  // What stands at `position`, in [0, num_samples()), of an epoch.
  //
  // Errors   data.bad_mix if positions of all epochs together pass 2^62
  Sample at(uint64_t epoch, int64_t position) const;
  // Samples of each source before `position`, in [0, num_samples()], in this epoch.
  std::vector<int64_t> counts(uint64_t epoch, int64_t position) const;

 private:
  // From `begin` on, with those sources that are left.
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
  std::vector<Stretch> stretches_;  // one, but with kContinue
  int64_t num_samples_ = 0;
};

}  // namespace tenon
