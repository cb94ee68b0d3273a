// SPDX-License-Identifier: Apache-2.0
//
// Collects samples for metrics that need all of them at once, up to a memory limit: the states that
// hold the samples, and their sorted form. Samples beyond the limit are ignored and counted.
//
// Invariant: the collected samples do not depend on the batch size. Results do not depend on the
// order of ranks or samples, since samples are sorted by all their values.
#pragma once

#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/metric.hpp>

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <tuple>
#include <vector>

#include "scored_samples.hpp"

struct CollectOptions : ScoreOptions {
  int64_t max_bytes = int64_t{256} << 20;
};

template <class Options>
void bind_max_bytes(tenon::OptionBinder<Options>& binder, const char* beyond) {
  binder.field("max_bytes", &Options::max_bytes).min(0).doc(beyond);
}

struct Sample {
  int64_t group = 0;
  double score = 0.0;
  double label = 0.0;
  double weight = 0.0;

  auto key() const { return std::tie(group, score, label, weight); }
};

class SampleCollector {
 public:
  enum class Groups { kNone, kOne };

  // `max_bytes` is the limit over all ranks. State indices begin at `first`.
  SampleCollector(int64_t max_bytes, Groups groups, size_t first, const tenon_mesh* mesh)
      : has_groups_(groups == Groups::kOne), first_(first) {
    const int64_t ranks = mesh == nullptr ? 1 : std::max<int64_t>(1, mesh->world_size);
    limit_ = max_bytes / bytes_of_sample() / ranks;
  }

  int64_t limit() const { return limit_; }

  void describe(tenon::MetricInfo& info) const {
    info.state("samples", {0, 3}, TENON_F64, TENON_REDUCE_CONCAT);
    info.sum("collected").sum("left_out");
    if (has_groups_) {
      info.state("groups", {0}, TENON_I64, TENON_REDUCE_CONCAT);
    }
  }

  // Takes the first samples, as many as fit, and returns their number.
  int64_t take(tenon::TorchStates& states, const ScoredSamples& samples) {
    const int64_t n = samples.scores_N.numel();
    const int64_t taken = room(states[first_ + kCollected], n);
    states[first_ + kExcluded].add_(static_cast<double>(n - taken));
    if (taken == 0) {
      return 0;
    }
    states[first_ + kCollected].add_(static_cast<double>(taken));
    const auto part = [&](const at::Tensor& all_N) { return all_N.narrow(0, 0, taken); };
    states.append(
        first_ + kSamples,
        at::stack({part(samples.scores_N), part(samples.labels_N), part(samples.weights_N)}, 1));
    if (has_groups_) {
      states.append(first_ + kGroups, part(samples.groups_N).clone());
    }
    return taken;
  }

  int64_t num_collected(const tenon::TorchInputs& states) const {
    return static_cast<int64_t>(states[first_ + kCollected].item<double>());
  }
  int64_t num_ignored(const tenon::TorchInputs& states) const {
    return static_cast<int64_t>(states[first_ + kExcluded].item<double>());
  }

  // Samples with nonzero weight, sorted by group, then by score. Unsorted if a score or label is
  // NaN.
  struct Sorted {
    std::vector<Sample> samples;
    bool is_number = true;
  };
  Sorted sorted(const tenon::TorchInputs& states) const {
    const at::Tensor rows = states[first_ + kSamples].to(at::kCPU).contiguous();
    const double* const row = rows.const_data_ptr<double>();
    at::Tensor groups;
    if (has_groups_) {
      groups = states[first_ + kGroups].to(at::kCPU).contiguous();
    }
    const int64_t* const group = has_groups_ ? groups.const_data_ptr<int64_t>() : nullptr;
    Sorted out;
    out.samples.reserve(static_cast<size_t>(rows.size(0)));
    for (int64_t i = 0; i < rows.size(0); ++i) {
      const Sample sample{
          group == nullptr ? 0 : group[i], row[3 * i], row[3 * i + 1], row[3 * i + 2]};
      if (sample.weight != 0.0) {
        out.is_number = out.is_number && !std::isnan(sample.score) && !std::isnan(sample.label) &&
                        !std::isnan(sample.weight);
        out.samples.push_back(sample);
      }
    }
    if (out.is_number) {
      std::sort(out.samples.begin(), out.samples.end(), [](const Sample& a, const Sample& b) {
        return a.key() < b.key();
      });
    }
    return out;
  }

 private:
  enum State : size_t { kSamples, kCollected, kExcluded, kGroups };

  int64_t bytes_of_sample() const { return has_groups_ ? 32 : 24; }

  // Number of the next n samples that fit. Reads the state only if it may be full, since reading
  // waits for a GPU.
  int64_t room(const at::Tensor& collected, int64_t n) {
    most_ = most_ > limit_ ? most_ : most_ + n;
    if (most_ <= limit_) {
      return n;
    }
    return std::clamp<int64_t>(limit_ - static_cast<int64_t>(collected.item<double>()), 0, n);
  }

  bool has_groups_;
  size_t first_;
  int64_t limit_ = 0;
  int64_t most_ = 0;  // upper bound on the samples in any state of this instance
};

// Calls use(samples of one group, ascending by score) for each group.
template <class Use>
void for_each_group(std::span<const Sample> sorted, Use&& use) {
  for (size_t begin = 0; begin < sorted.size();) {
    size_t end = begin;
    while (end < sorted.size() && sorted[end].group == sorted[begin].group) {
      ++end;
    }
    use(sorted.subspan(begin, end - begin));
    begin = end;
  }
}

// Area under the ROC curve: the probability that a positive sample scores higher than a negative
// one; ties count half. NaN unless both classes occur. A label above 0.5 is positive.
// Source  Hanley, McNeil, The Meaning and Use of the Area under a ROC Curve (Radiology 1982)
inline double area_under_curve(std::span<const Sample> ascending) {
  double positive = 0.0;
  double negative = 0.0;
  double wins = 0.0;
  for (size_t begin = 0; begin < ascending.size();) {
    double positive_here = 0.0;
    double negative_here = 0.0;
    size_t end = begin;
    for (; end < ascending.size() && ascending[end].score == ascending[begin].score; ++end) {
      (ascending[end].label > 0.5 ? positive_here : negative_here) += ascending[end].weight;
    }
    wins += positive_here * (negative + 0.5 * negative_here);
    positive += positive_here;
    negative += negative_here;
    begin = end;
  }
  return positive > 0.0 && negative > 0.0 ? wins / (positive * negative)
                                          : std::numeric_limits<double>::quiet_NaN();
}
