// SPDX-License-Identifier: Apache-2.0
//
// The top k samples of a group by score. Tied samples share their positions, as the average over
// all their orders. So no metric depends on the order of tied samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sample_collector.hpp"

struct FirstKOptions : CollectOptions {
  int64_t k = 10;
};

template <class Options>
void bind_k(tenon::OptionBinder<Options>& binder) {
  binder.field("k", &Options::k).min(1).doc("number of top-scored samples per group");
}

// Calls use(tied samples, position of the first one from 0) for each tie within the top k.
template <class Use>
void for_each_rank(std::span<const Sample> ascending, int64_t k, Use&& use) {
  size_t end = ascending.size();
  for (int64_t rank = 0; end > 0 && rank < k;) {
    size_t begin = end - 1;
    while (begin > 0 && ascending[begin - 1].score == ascending[end - 1].score) {
      --begin;
    }
    use(ascending.subspan(begin, end - begin), rank);
    rank += static_cast<int64_t>(end - begin);
    end = begin;
  }
}

inline double num_positive(std::span<const Sample> samples) {
  double positive = 0.0;
  for (const Sample& sample : samples) {
    positive += sample.label > 0.5 ? 1.0 : 0.0;
  }
  return positive;
}

// Positives among the top k, averaged over the orders of ties.
inline double hits_of_first(std::span<const Sample> ascending, int64_t k) {
  double hits = 0.0;
  for_each_rank(ascending, k, [&](std::span<const Sample> equal, int64_t rank) {
    const auto size = static_cast<double>(equal.size());
    const double ranks = std::min(size, static_cast<double>(k - rank));
    hits += num_positive(equal) * ranks / size;
  });
  return hits;
}
