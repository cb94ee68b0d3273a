// SPDX-License-Identifier: Apache-2.0
//
// Perplexity: exp of the mean negative log likelihood of the labels under the softmax of the
// logits.
// Source: Jurafsky and Martin, Speech and Language Processing (3rd ed. draft), section 3.3.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/metric.hpp>

#include <cmath>
#include <limits>
#include <vector>

#include "../label_nats.hpp"
#include "../label_option.hpp"

namespace {

using PerplexityOptions = LabelOptions;

class Perplexity : public tenon::TorchMetric {
 public:
  static constexpr const char* kType = "perplexity";
  static constexpr const char* kSummary = "exp of the mean negative log likelihood of the labels";
  using Options = PerplexityOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { bind_label_options(binder); }

  explicit Perplexity(const Options& options) : options_(options) {}

  void describe(tenon::MetricInfo& info) override {
    info.port("logits", {}, TENON_CLASS_FLOAT)
        .port("labels", {}, TENON_CLASS_INTEGER)
        .sum("nats")
        .sum("labels")
        .metric("perplexity")
        .periods(options_.periods());
  }

  void update(const tenon::Exec&,
              const tenon::TorchInputs& inputs,
              tenon::TorchStates& states) override {
    const LabelNats nats = label_nats(inputs[0], inputs[1], options_.ignore_index);
    states[0].add_(nats.sum);
    states[1].add_(nats.counted_N.sum(at::kDouble));
  }

  std::vector<double> compute(const tenon::Exec&, const tenon::TorchInputs& states) override {
    const double labels = states[1].item<double>();
    return {labels == 0 ? std::numeric_limits<double>::quiet_NaN()
                        : std::exp(states[0].item<double>() / labels)};
  }

 private:
  Options options_;
};

}  // namespace

TENON_PLUGIN(Perplexity)
