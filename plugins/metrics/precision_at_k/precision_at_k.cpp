// SPDX-License-Identifier: Apache-2.0
//
// Fraction of positives among the top k of a group, averaged over groups.
// Source: Manning, Raghavan, Schütze, Introduction to Information Retrieval (2008), section 8.4.
#include <tenon/cpp/plugin.hpp>

#include <cstdint>
#include <span>

#include "../first_k.hpp"
#include "../grouped_metric.hpp"

namespace {

using PrecisionAtKOptions = FirstKOptions;

class PrecisionAtK : public GroupedMetric {
 public:
  static constexpr const char* kType = "precision_at_k";
  static constexpr const char* kSummary =
      "fraction of positives in the top k, averaged over groups";
  using Options = PrecisionAtKOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_k(binder);
    bind_group_options(binder);
  }

  PrecisionAtK(const Options& options, const tenon::CreateContext& context)
      : GroupedMetric(kType, options, Weights::kNone, context), k_(options.k) {}

  void describe(tenon::MetricInfo& info) override { describe_group(info, "group"); }

 private:
  Part of_group(std::span<const Sample> ascending) const override {
    return {hits_of_first(ascending, k_) / static_cast<double>(k_), 1.0};
  }

  int64_t k_;
};

}  // namespace

TENON_PLUGIN(PrecisionAtK)
