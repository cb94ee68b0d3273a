// SPDX-License-Identifier: Apache-2.0
//
// Ratio of mean prediction to mean label: 1 if the model is calibrated overall, 2 if it predicts
// twice as many clicks as observed.
// Source: He et al., Practical Lessons from Predicting Clicks on Ads at Facebook (ADKDD 2014),
// section 2.1.
//
// Shapes: N labels.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/metric.hpp>

#include <ATen/ATen.h>

#include <limits>
#include <vector>

#include "../scored_samples.hpp"

namespace {

using CalibrationOptions = ScoreOptions;

class Calibration : public tenon::TorchMetric {
 public:
  static constexpr const char* kType = "calibration";
  static constexpr const char* kSummary = "ratio of mean prediction to mean label";
  using Options = CalibrationOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_scores(binder);
    bind_label_options(binder);
  }

  explicit Calibration(const Options& options) : options_(options) {}

  void describe(tenon::MetricInfo& info) override {
    info.port("logits", {}, TENON_CLASS_FLOAT)
        .port("labels", {}, TENON_CLASS_ANY)
        .optional_port("sample_weight", {}, TENON_CLASS_FLOAT)
        .sum("predicted")
        .sum("labels")
        .metric("calibration")
        .periods(options_.periods());
  }

  void update(const tenon::Exec&,
              const tenon::TorchInputs& inputs,
              tenon::TorchStates& states) override {
    const ScoredSamples samples = scored_samples(inputs, options_.ignore_index, 2, -1);
    const at::Tensor predicted_N =
        probabilities_of(samples.scores_N, options_.scores) * samples.weights_N;
    // Ignored values may be NaN.
    states[0].add_(predicted_N.masked_fill(samples.weights_N.eq(0.0), 0.0).sum(at::kDouble));
    states[1].add_((samples.labels_N * samples.weights_N).sum(at::kDouble));
  }

  std::vector<double> compute(const tenon::Exec&, const tenon::TorchInputs& states) override {
    const double labels = states[1].item<double>();
    return {labels == 0 ? std::numeric_limits<double>::quiet_NaN()
                        : states[0].item<double>() / labels};
  }

 private:
  Options options_;
};

}  // namespace

TENON_PLUGIN(Calibration)
