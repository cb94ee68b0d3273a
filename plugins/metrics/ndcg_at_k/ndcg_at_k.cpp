// SPDX-License-Identifier: Apache-2.0
//
// Normalized discounted cumulative gain of the top k of a group, averaged over groups.
// Source: Järvelin, Kekäläinen, Cumulated Gain-Based Evaluation of IR Techniques (TOIS 2002), with
// the discount 1 / log2(position + 1); tied scores: McSherry, Najork, Computing Information
// Retrieval Performance Measures Efficiently in the Presence of Tied Scores (ECIR 2008).
#include <tenon/cpp/plugin.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "../first_k.hpp"
#include "../grouped_metric.hpp"

namespace {

struct NdcgOptions : FirstKOptions {
  enum class Gain { kLabel, kPower };

  Gain gain = Gain::kLabel;
};

class NdcgAtK : public GroupedMetric {
 public:
  static constexpr const char* kType = "ndcg_at_k";
  static constexpr const char* kSummary =
      "normalized discounted cumulative gain of the top k, averaged over groups";
  using Options = NdcgOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_k(binder);
    binder
        .choice("gain",
                &Options::gain,
                {{"label", Options::Gain::kLabel}, {"power", Options::Gain::kPower}})
        .doc("gain of a sample: its label, or 2^label - 1 (power)");
    bind_group_options(binder);
  }

  NdcgAtK(const Options& options, const tenon::CreateContext& context)
      : GroupedMetric(kType, options, Weights::kNone, context),
        k_(options.k),
        gain_(options.gain) {}

  void describe(tenon::MetricInfo& info) override { describe_group(info, "group"); }

 private:
  static double discount(int64_t rank) { return 1.0 / std::log2(static_cast<double>(rank) + 2); }

  double gain_of(const Sample& sample) const {
    TENON_CHECK(sample.label >= 0.0,
                "label ",
                sample.label,
                " is negative (expected labels of at least 0)");
    return gain_ == Options::Gain::kLabel ? sample.label : std::exp2(sample.label) - 1.0;
  }

  Part of_group(std::span<const Sample> ascending) const override {
    double reached = 0.0;
    for_each_rank(ascending, k_, [&](std::span<const Sample> equal, int64_t rank) {
      double gain = 0.0;
      for (const Sample& sample : equal) {
        gain += gain_of(sample);
      }
      double discounts = 0.0;
      const int64_t end = std::min(k_, rank + static_cast<int64_t>(equal.size()));
      for (int64_t p = rank; p < end; ++p) {
        discounts += discount(p);
      }
      reached += gain / static_cast<double>(equal.size()) * discounts;
    });
    std::vector<double> gains;
    for (const Sample& sample : ascending) {
      gains.push_back(gain_of(sample));
    }
    std::sort(gains.begin(), gains.end(), std::greater<>());
    double best = 0.0;
    for (size_t p = 0; p < gains.size() && static_cast<int64_t>(p) < k_; ++p) {
      best += gains[p] * discount(static_cast<int64_t>(p));
    }
    return {best > 0.0 ? reached / best : 0.0, best > 0.0 ? 1.0 : 0.0};
  }

  int64_t k_;
  Options::Gain gain_;
};

}  // namespace

TENON_PLUGIN(NdcgAtK)
