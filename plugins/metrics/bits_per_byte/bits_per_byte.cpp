// SPDX-License-Identifier: Apache-2.0
//
// Bits per byte: negative log likelihood of the labels in bits, per byte of the text they stand
// for. Independent of the tokenizer.
// Source: Gao et al., The Pile (2020), section 3.1.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/metric.hpp>

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <vector>

#include "../label_nats.hpp"
#include "../label_option.hpp"

namespace {

using BitsOptions = LabelOptions;

class BitsPerByte : public tenon::TorchMetric {
 public:
  static constexpr const char* kType = "bits_per_byte";
  static constexpr const char* kSummary =
      "negative log likelihood of the labels in bits, per byte of their text";
  using Options = BitsOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { bind_label_options(binder); }

  explicit BitsPerByte(const Options& options) : options_(options) {}

  void describe(tenon::MetricInfo& info) override {
    info.port("logits", {}, TENON_CLASS_FLOAT)
        .port("labels", {}, TENON_CLASS_INTEGER)
        .port("label_bytes", {}, TENON_CLASS_INTEGER)
        .sum("nats")
        .sum("bytes")
        .metric("bits_per_byte")
        .periods(options_.periods());
  }

  void update(const tenon::Exec&,
              const tenon::TorchInputs& inputs,
              tenon::TorchStates& states) override {
    const at::Tensor& labels = inputs[1];
    const at::Tensor& bytes = inputs[2];
    TENON_CHECK(bytes.sizes() == labels.sizes(),
                "label_bytes of shape ",
                bytes.sizes(),
                " and labels of shape ",
                labels.sizes(),
                " do not match");
    const LabelNats nats = label_nats(inputs[0], labels, options_.ignore_index);
    states[0].add_(nats.sum);
    states[1].add_(bytes.reshape({-1}).mul(nats.counted_N).sum(at::kDouble));
  }

  std::vector<double> compute(const tenon::Exec&, const tenon::TorchInputs& states) override {
    const double bytes = states[1].item<double>();
    return {bytes == 0 ? std::numeric_limits<double>::quiet_NaN()
                       : states[0].item<double>() / std::log(2.0) / bytes};
  }

 private:
  Options options_;
};

}  // namespace

TENON_PLUGIN(BitsPerByte)
