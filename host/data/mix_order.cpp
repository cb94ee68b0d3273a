// SPDX-License-Identifier: Apache-2.0

#include "host/data/mix_order.hpp"

#include "host/data/rank_sampler.hpp"
#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/tensor/philox.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

namespace tenon {
namespace {

[[noreturn]] void fail_too_long() {
  throw Error("data.bad_mix",
              "an epoch of the mix would have more than 2^62 samples; use weights that differ "
              "less, or another \"when_one_ends\"");
}

}  // namespace

const char* word_of(WhenOneEnds when) {
  switch (when) {
    case WhenOneEnds::kRepeat:
      return "repeat";
    case WhenOneEnds::kStop:
      return "stop";
    case WhenOneEnds::kContinue:
      return "continue";
  }
  return "";
}

MixOrder::MixOrder(uint64_t seed,
                   const std::vector<double>& weights,
                   std::vector<int64_t> sizes,
                   WhenOneEnds when)
    : weights_(weights), sizes_(std::move(sizes)), when_(when) {
  TENON_ASSERT(weights_.size() == sizes_.size(), "each source has a weight and a size");
  std::vector<double> active = weights_;
  std::vector<int64_t> before(sizes_.size(), 0);
  while (true) {
    // Stretch 0 uses the seed itself, so that all values of WhenOneEnds start with equal orders.
    const std::size_t number = stretches_.size();
    stretches_.push_back(
        {.begin = num_samples_,
         .before = before,
         .turns = Interleave(number == 0 ? seed : mix_seeds(seed, number), active)});
    const Interleave& turns = stretches_.back().turns;
    std::vector<int64_t> left(sizes_.size(), 0);
    for (std::size_t i = 0; i < left.size(); ++i) {
      TENON_ASSERT(sizes_[i] >= 0 && sizes_[i] <= kMostSamples, "not a number of samples");
      left[i] = active[i] > 0 ? sizes_[i] - before[i] : 0;
    }
    const int64_t length = length_of(turns, left);
    if (length > kMostSamples - num_samples_) {
      fail_too_long();
    }
    num_samples_ += length;
    if (when_ != WhenOneEnds::kContinue) {
      return;
    }
    const std::vector<int64_t> taken = turns.counts(length);
    bool is_over = true;
    for (std::size_t i = 0; i < left.size(); ++i) {
      before[i] += taken[i];
      if (before[i] >= sizes_[i]) {
        active[i] = 0;
      }
      is_over = is_over && active[i] == 0;
    }
    if (is_over) {
      return;
    }
  }
}

// Returns the length of a stretch in which the sources have `left` samples each. With kRepeat: the
// shortest that contains all samples of each source. Otherwise: the longest that contains at most
// the samples of each source.
int64_t MixOrder::length_of(const Interleave& turns, const std::vector<int64_t>& left) const {
  const bool is_repeated = when_ == WhenOneEnds::kRepeat;
  const auto fits = [&](int64_t length) {
    const std::vector<int64_t> counts = turns.counts(length);
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (is_repeated ? counts[i] < left[i] : counts[i] > left[i]) {
        return !is_repeated;
      }
    }
    return is_repeated;
  };
  // Searches for the first length with all samples, or with more samples than exist.
  int64_t low = 0;
  int64_t high = kMostSamples;
  if (!fits(high)) {
    fail_too_long();
  }
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (fits(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return is_repeated ? high : high - 1;
}

const MixOrder::Stretch& MixOrder::stretch_of(int64_t position) const {
  const auto after = std::upper_bound(
      stretches_.begin(), stretches_.end(), position, [](int64_t at, const Stretch& stretch) {
        return at < stretch.begin;
      });
  return *(after - 1);
}

// If sources start over, the epochs form one sequence: samples of a source left at the end of an
// epoch are read in the next epoch.
int64_t MixOrder::run_position(uint64_t epoch, int64_t position) const {
  if (when_ != WhenOneEnds::kRepeat) {
    return position;
  }
  int64_t whole = 0;
  if (epoch > static_cast<uint64_t>(kMostSamples) ||
      __builtin_mul_overflow(static_cast<int64_t>(epoch), num_samples_, &whole) ||
      whole > kMostSamples - position) {
    throw Error("data.bad_mix", formatted("epoch {} of the mix lies beyond 2^62 samples", epoch));
  }
  return whole + position;
}

MixOrder::Sample MixOrder::at(uint64_t epoch, int64_t position) const {
  TENON_ASSERT(position >= 0 && position < num_samples_, "a position outside the epoch");
  if (when_ == WhenOneEnds::kRepeat) {
    const Interleave::Turn turn = stretches_.front().turns.at(run_position(epoch, position));
    return {.source = turn.source,
            .pass = static_cast<uint64_t>(turn.ordinal / sizes_[turn.source]),
            .position = turn.ordinal % sizes_[turn.source]};
  }
  const Stretch& stretch = stretch_of(position);
  const Interleave::Turn turn = stretch.turns.at(position - stretch.begin);
  return {
      .source = turn.source, .pass = epoch, .position = stretch.before[turn.source] + turn.ordinal};
}

std::vector<int64_t> MixOrder::counts_at(int64_t position) const {
  const Stretch& stretch = stretch_of(position);
  std::vector<int64_t> counts = stretch.turns.counts(position - stretch.begin);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counts[i] += stretch.before[i];
  }
  return counts;
}

std::vector<int64_t> MixOrder::counts(uint64_t epoch, int64_t position) const {
  TENON_ASSERT(position >= 0 && position <= num_samples_, "a position outside the epoch");
  std::vector<int64_t> counts = counts_at(run_position(epoch, position));
  if (when_ == WhenOneEnds::kRepeat) {
    const std::vector<int64_t> before = counts_at(run_position(epoch, 0));
    for (std::size_t i = 0; i < counts.size(); ++i) {
      counts[i] -= before[i];
    }
  }
  return counts;
}

}  // namespace tenon
