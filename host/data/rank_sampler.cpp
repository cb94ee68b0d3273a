// SPDX-License-Identifier: Apache-2.0

#include "host/data/rank_sampler.hpp"

#include "host/error/assert.hpp"

#include <algorithm>

namespace tenon {
RankSampler::RankSampler(int64_t num_samples,
                         int64_t batch_size,
                         DataRank rank,
                         Remainder last,
                         int64_t samples_per_step)
    : num_samples_(num_samples), per_microbatch_(0), end_(num_samples), rank_(rank), last_(last) {
  TENON_ASSERT(num_samples >= 0 && num_samples <= kMostSamples, "not a number of samples");
  TENON_ASSERT(rank.size >= 1 && rank.rank >= 0 && rank.rank < rank.size, "not a rank");
  TENON_ASSERT(batch_size >= 1 && batch_size <= kMostSamples / rank.size, "not a batch size");
  per_microbatch_ = batch_size * rank.size;
  const int64_t per_step = samples_per_step == 0 ? per_microbatch_ : samples_per_step;
  TENON_ASSERT(per_step >= 1 && per_step % per_microbatch_ == 0,
               "a step is a multiple of a global microbatch");
  if (last == Remainder::kDrop) {
    end_ -= num_samples % per_step;
  }
}

bool RankSampler::has_share(int64_t cursor) const {
  return num_left(cursor) > 0;
}

Share RankSampler::share(int64_t cursor) const {
  TENON_ASSERT(has_share(cursor), "no global microbatch begins here");
  const int64_t size = std::min(per_microbatch_, end_ - cursor);
  const int64_t each = size / rank_.size;
  const int64_t more = size % rank_.size;  // ranks that take one sample more
  return {.first = cursor + rank_.rank * each + std::min(rank_.rank, more),
          .count = each + (rank_.rank < more ? 1 : 0),
          .cursor_after = cursor + size};
}

int64_t RankSampler::num_left(int64_t cursor) const {
  TENON_ASSERT(cursor >= 0, "a position is not negative");
  const int64_t left = std::max<int64_t>(0, end_ - cursor);
  const int64_t whole = left / per_microbatch_;
  const bool has_part = left % per_microbatch_ != 0;
  // With kDrop, a part is left only if the number of ranks or the batch size has changed.
  return whole + (has_part && last_ == Remainder::kShort ? 1 : 0);
}

int64_t RankSampler::num_dropped(int64_t cursor) const {
  if (last_ == Remainder::kShort) {
    return 0;
  }
  return std::max<int64_t>(0, num_samples_ - cursor - num_left(cursor) * per_microbatch_);
}

}  // namespace tenon
