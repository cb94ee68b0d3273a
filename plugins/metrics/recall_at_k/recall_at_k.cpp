// SPDX-License-Identifier: Apache-2.0
//
// Fraction of a group's positives that are in its top k, averaged over groups.
// Source: Manning, Raghavan, Schütze, Introduction to Information Retrieval (2008), section 8.4.
#include <tenon/cpp/plugin.hpp>

#include <cstdint>
#include <span>

#include "../first_k.hpp"
#include "../grouped_metric.hpp"

namespace {

using RecallAtKOptions = FirstKOptions;

class RecallAtK : public GroupedMetric {
 public:
  static constexpr const char* kType = "recall_at_k";
  static constexpr const char* kSummary =
      "fraction of the positives that are in the top k, averaged over groups";
  using Options = RecallAtKOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_k(binder);
    bind_group_options(binder);
  }

  RecallAtK(const Options& options, const tenon::CreateContext& context)
      : GroupedMetric(kType, options, Weights::kNone, context), k_(options.k) {}

  void describe(tenon::MetricInfo& info) override { describe_group(info, "group"); }

 private:
  Part of_group(std::span<const Sample> ascending) const override {
    const double positive = num_positive(ascending);
    return {positive > 0.0 ? hits_of_first(ascending, k_) / positive : 0.0,
            positive > 0.0 ? 1.0 : 0.0};
  }

  int64_t k_;
};

}  // namespace

TENON_PLUGIN(RecallAtK)
