// SPDX-License-Identifier: Apache-2.0
//
// The share of labels that are predicted: among the `top_k` classes with the largest logits, or,
// for logits of the labels' own shape, on the right side of 0.
//
// Shapes: N labels, C classes.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/metric.hpp>

#include <ATen/ATen.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "../label_option.hpp"

namespace {

struct AccuracyOptions : LabelOptions {
  int64_t top_k = 1;
};

class Accuracy : public tenon::TorchMetric {
 public:
  static constexpr const char* kType = "accuracy";
  static constexpr const char* kSummary =
      "share of labels among the classes with the largest logits";
  using Options = AccuracyOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("top_k", &Options::top_k)
        .min(1)
        .doc("a label counts as predicted if it is among so many classes; fewer than there are");
    bind_label_options(binder);
  }

  explicit Accuracy(const Options& options) : options_(options) {}

  void describe(tenon::MetricInfo& info) override {
    info.port("logits", {}, TENON_CLASS_FLOAT)
        .port("labels", {}, TENON_CLASS_ANY)
        .sum("correct")
        .sum("labels")
        .figure("accuracy")
        .periods(options_.periods());
  }

  void update(const tenon::Exec&,
              const tenon::TorchInputs& inputs,
              tenon::TorchStates& states) override {
    const at::Tensor& logits = inputs[0];
    const at::Tensor& labels = inputs[1];
    const at::Tensor is_counted = labels.ne(options_.ignore_index);
    const at::Tensor is_correct =
        logits.sizes() == labels.sizes() ? binary(logits, labels) : of_classes(logits, labels);
    states[0].add_(is_correct.logical_and(is_counted).sum(at::kDouble));
    states[1].add_(is_counted.sum(at::kDouble));
  }

  std::vector<double> compute(const tenon::Exec&, const tenon::TorchInputs& states) override {
    const double labels = states[1].item<double>();
    return {labels == 0 ? std::numeric_limits<double>::quiet_NaN()
                        : states[0].item<double>() / labels};
  }

 private:
  at::Tensor binary(const at::Tensor& logits, const at::Tensor& labels) const {
    TENON_CHECK(options_.top_k == 1,
                "logits of shape ",
                logits.sizes(),
                ", which is the labels' own, mean one class against none: top_k must be 1");
    return logits.gt(0).eq(labels.gt(0.5));
  }

  at::Tensor of_classes(const at::Tensor& logits, const at::Tensor& labels) const {
    check_class_axes(logits, labels);
    const int64_t num_classes = logits.size(-1);
    TENON_CHECK(options_.top_k < num_classes,
                "top_k is ",
                options_.top_k,
                ", and the logits have ",
                num_classes,
                " classes: each label would count as predicted");
    if (options_.top_k == 1) {
      return logits.argmax(-1).eq(labels);
    }
    return std::get<1>(logits.topk(options_.top_k, -1)).eq(labels.unsqueeze(-1)).any(-1);
  }

  Options options_;
};

}  // namespace

TENON_PLUGIN(Accuracy)
