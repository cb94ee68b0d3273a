// SPDX-License-Identifier: Apache-2.0
//
// Fraction of labels predicted correctly: among the `top_k` classes with the largest logits. If
// logits have the labels' shape: by the sign of the logit.
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
  static constexpr const char* kSummary = "fraction of labels among the top-k predicted classes";
  using Options = AccuracyOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("top_k", &Options::top_k)
        .min(1)
        .doc("number of top classes that may contain the label; less than the number of classes");
    bind_label_options(binder);
  }

  explicit Accuracy(const Options& options) : options_(options) {}

  void describe(tenon::MetricInfo& info) override {
    info.port("logits", {}, TENON_CLASS_FLOAT)
        .port("labels", {}, TENON_CLASS_ANY)
        .sum("correct")
        .sum("labels")
        .metric("accuracy")
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
                ", equal to the labels' shape, mean binary classification, which requires top_k 1");
    return logits.gt(0).eq(labels.gt(0.5));
  }

  at::Tensor of_classes(const at::Tensor& logits, const at::Tensor& labels) const {
    check_class_axes(logits, labels);
    const int64_t num_classes = logits.size(-1);
    TENON_CHECK(options_.top_k < num_classes,
                "top_k is ",
                options_.top_k,
                ", but the logits have only ",
                num_classes,
                " classes; top_k must be less than that");
    if (options_.top_k == 1) {
      return logits.argmax(-1).eq(labels);
    }
    return std::get<1>(logits.topk(options_.top_k, -1)).eq(labels.unsqueeze(-1)).any(-1);
  }

  Options options_;
};

}  // namespace

TENON_PLUGIN(Accuracy)
