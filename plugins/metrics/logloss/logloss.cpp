// SPDX-License-Identifier: Apache-2.0
//
// Mean binary cross entropy of labels, in nats: the quantity that bce_with_logits minimizes. Also
// accepts probabilities.
// Source: Bishop, Pattern Recognition and Machine Learning (2006), section 4.3.2.
//
// Shapes: N labels.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/metric.hpp>

#include <ATen/ATen.h>

#include <limits>
#include <vector>

#include "../scored_samples.hpp"

namespace {

using LoglossOptions = ScoreOptions;

class Logloss : public tenon::TorchMetric {
 public:
  static constexpr const char* kType = "logloss";
  static constexpr const char* kSummary = "mean binary cross entropy, in nats";
  using Options = LoglossOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_scores(binder);
    bind_label_options(binder);
  }

  explicit Logloss(const Options& options) : options_(options) {}

  void describe(tenon::MetricInfo& info) override {
    info.port("logits", {}, TENON_CLASS_FLOAT)
        .port("labels", {}, TENON_CLASS_ANY)
        .optional_port("sample_weight", {}, TENON_CLASS_FLOAT)
        .sum("nats")
        .sum("weight")
        .metric("logloss")
        .periods(options_.periods());
  }

  void update(const tenon::Exec&,
              const tenon::TorchInputs& inputs,
              tenon::TorchStates& states) override {
    const ScoredSamples samples = scored_samples(inputs, options_.ignore_index, 2, -1);
    const at::Tensor nats_N = nats_of(samples.scores_N, samples.labels_N);
    // Ignored values may be infinite.
    states[0].add_(
        (nats_N * samples.weights_N).masked_fill(samples.weights_N.eq(0.0), 0.0).sum(at::kDouble));
    states[1].add_(samples.weights_N.sum(at::kDouble));
  }

  std::vector<double> compute(const tenon::Exec&, const tenon::TorchInputs& states) override {
    const double weight = states[1].item<double>();
    return {weight == 0 ? std::numeric_limits<double>::quiet_NaN()
                        : states[0].item<double>() / weight};
  }

 private:
  at::Tensor nats_of(const at::Tensor& scores_N, const at::Tensor& labels_N) const {
    if (options_.scores == ScoreOptions::Scores::kLogits) {
      // log(1 + exp(x)) - x y, computed without overflow.
      return scores_N.clamp_min(0.0) - scores_N * labels_N + scores_N.abs().neg().exp().log1p();
    }
    // Clamped: a wrong probability of 0 or 1 costs about 36 nats instead of infinity.
    constexpr double kLeast = std::numeric_limits<double>::epsilon();
    const at::Tensor p_N = scores_N.clamp(kLeast, 1.0 - kLeast);
    return -(labels_N * p_N.log() + (1.0 - labels_N) * p_N.neg().log1p());
  }

  Options options_;
};

}  // namespace

TENON_PLUGIN(Logloss)
