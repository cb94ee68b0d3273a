// SPDX-License-Identifier: Apache-2.0
//
// Area under the ROC curve. Exact, from all samples, while they fit in `max_bytes`. Otherwise
// computed from histogram counts between thresholds, which are kept in parallel.
// Source: Hanley, McNeil, The Meaning and Use of the Area under a ROC Curve (Radiology 1982).
//
// Shapes: N labels, T thresholds.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/metric.hpp>

#include <ATen/ATen.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "../sample_collector.hpp"

namespace {

struct AucOptions : CollectOptions {
  int64_t thresholds = 200;
};

class Auc : public tenon::TorchMetric {
 public:
  static constexpr const char* kType = "auc";
  static constexpr const char* kSummary = "area under the ROC curve, exact or from thresholds";
  using Options = AucOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_scores(binder);
    bind_max_bytes(binder,
                   "memory for samples over all ranks, bytes; if exceeded, uses thresholds and "
                   "logs a warning. 0: thresholds only");
    binder.field("thresholds", &Options::thresholds)
        .min(2)
        .max(1000000)
        .doc("number of probability thresholds, evenly spaced in [0, 1]");
    bind_label_options(binder);
  }

  Auc(const Options& options, const tenon::CreateContext& context)
      : options_(options),
        collector_(
            options.max_bytes, SampleCollector::Groups::kNone, kFirstOfSamples, context.mesh) {}

  void describe(tenon::MetricInfo& info) override {
    info.port("logits", {}, TENON_CLASS_FLOAT)
        .port("labels", {}, TENON_CLASS_ANY)
        .optional_port("sample_weight", {}, TENON_CLASS_FLOAT)
        .sum("positive", {options_.thresholds})
        .sum("negative", {options_.thresholds})
        .sum("no_numbers");
    collector_.describe(info);
    info.metric("auc").periods(options_.periods());
  }

  void update(const tenon::Exec&,
              const tenon::TorchInputs& inputs,
              tenon::TorchStates& states) override {
    const ScoredSamples samples = scored_samples(inputs, options_.ignore_index, 2, -1);
    const at::Tensor is_nan_N = samples.scores_N.isnan().logical_and(samples.weights_N.ne(0.0));
    const at::Tensor thresholds_T = at::arange(options_.thresholds, samples.scores_N.options())
                                        .div_(static_cast<double>(options_.thresholds - 1));
    // Interval t begins at threshold t. Values outside [0, 1] count in the first or last interval.
    const at::Tensor interval_N =
        at::bucketize(probabilities_of(samples.scores_N, options_.scores).nan_to_num(0.0),
                      thresholds_T,
                      /*out_int32=*/false,
                      /*right=*/true)
            .sub_(1)
            .clamp_(0, options_.thresholds - 1);
    const at::Tensor is_positive_N = samples.labels_N.gt(0.5);
    states[kPositive].index_add_(0, interval_N, samples.weights_N * is_positive_N);
    states[kNegative].index_add_(0, interval_N, samples.weights_N * is_positive_N.logical_not());
    states[kNoNumbers].add_(is_nan_N.sum(at::kDouble));
    collector_.take(states, samples);
  }

  std::vector<double> compute(const tenon::Exec&, const tenon::TorchInputs& states) override {
    if (states[kNoNumbers].item<double>() > 0) {
      return {std::numeric_limits<double>::quiet_NaN()};
    }
    const int64_t num_ignored = collector_.num_ignored(states);
    if (num_ignored == 0) {
      return {area_under_curve(collector_.sorted(states).samples)};
    }
    if (options_.max_bytes > 0 && !has_warned_) {
      has_warned_ = true;
      host().log_warn(collector_.num_collected(states) + num_ignored,
                      " samples exceed max_bytes (",
                      options_.max_bytes,
                      "); auc is computed from ",
                      options_.thresholds,
                      " thresholds");
    }
    return {area_of_counts(states)};
  }

 private:
  enum State : size_t { kPositive, kNegative, kNoNumbers, kFirstOfSamples };

  // Samples between two thresholds count as tied.
  double area_of_counts(const tenon::TorchInputs& states) const {
    const at::Tensor positive_T = states[kPositive].to(at::kCPU).contiguous();
    const at::Tensor negative_T = states[kNegative].to(at::kCPU).contiguous();
    std::vector<Sample> samples;
    for (int64_t t = 0; t < options_.thresholds; ++t) {
      const auto score = static_cast<double>(t);
      samples.push_back({0, score, 1.0, positive_T.const_data_ptr<double>()[t]});
      samples.push_back({0, score, 0.0, negative_T.const_data_ptr<double>()[t]});
    }
    return area_under_curve(samples);
  }

  Options options_;
  SampleCollector collector_;
  bool has_warned_ = false;
};

}  // namespace

TENON_PLUGIN(Auc)
