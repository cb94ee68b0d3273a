// SPDX-License-Identifier: Apache-2.0
//
// Grouped AUC: the mean over users of the per-user area under the ROC curve, weighted by the user's
// number of samples.
// Source: Zhou et al., Deep Interest Network for Click-Through Rate Prediction (KDD 2018), section
// 6.3, after Zhu et al., Optimized Cost per Click in Taobao Display Advertising (KDD 2017).
#include <tenon/cpp/plugin.hpp>

#include <cmath>
#include <span>

#include "../grouped_metric.hpp"

namespace {

using GaucOptions = CollectOptions;

class Gauc : public GroupedMetric {
 public:
  static constexpr const char* kType = "gauc";
  static constexpr const char* kSummary =
      "mean over users of the per-user area under the ROC curve";
  using Options = GaucOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { bind_group_options(binder); }

  Gauc(const Options& options, const tenon::CreateContext& context)
      : GroupedMetric(kType, options, Weights::kOptional, context) {}

  void describe(tenon::MetricInfo& info) override { describe_group(info, "user"); }

 private:
  Part of_group(std::span<const Sample> ascending) const override {
    const double area = area_under_curve(ascending);
    if (std::isnan(area)) {
      return {};  // one class only: nothing to rank
    }
    double weight = 0.0;
    for (const Sample& sample : ascending) {
      weight += sample.weight;
    }
    return {area, weight};
  }
};

}  // namespace

TENON_PLUGIN(Gauc)
