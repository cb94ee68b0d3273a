// SPDX-License-Identifier: Apache-2.0
//
// Binary cross entropy between logits and target probabilities, summed over the labels that are not
// ignored. For a logit x with label y and positive weight p, with s = sigmoid(x):
//
//     loss = -p y log(s) - (1 - y) log(1 - s)
//
// libtorch computes it from log(s), so the loss stays exact if s rounds to 0 or 1.
//
// Source: Bishop, Pattern Recognition and Machine Learning (2006), section 4.3.2.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/loss.hpp>

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace {

struct BceOptions {
  std::vector<double> pos_weight;
  double ignore_index = -100.0;
};

class BceWithLogits : public tenon::TorchLoss {
 public:
  static constexpr const char* kType = "bce_with_logits";
  static constexpr const char* kSummary = "binary cross entropy of logits, in nats";
  using Options = BceOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("pos_weight", &Options::pos_weight)
        .min(0)
        .doc(
            "weight of positive labels: one number, or one per position of the last axis; empty: "
            "1");
    binder.field("ignore_index", &Options::ignore_index).doc("label value to ignore");
  }

  explicit BceWithLogits(const Options& options) : options_(options) {}

  void describe(tenon::LossInfo& info) override {
    info.port("logits", {}, TENON_CLASS_FLOAT)
        .port("labels", {}, TENON_CLASS_ANY)
        .optional_port("sample_weight", {"B"}, TENON_CLASS_FLOAT)
        .additive_over(TENON_ADDITIVE_TOKENS)
        .count_from_batch();
  }

  at::Tensor count(const tenon::Exec&, const tenon::TorchInputs& inputs) override {
    return weights_of(inputs, inputs[kLabels], at::kDouble).sum();
  }

  at::Tensor compute(const tenon::Exec&, const tenon::TorchInputs& inputs) override {
    const at::Tensor& logits = inputs[kLogits];
    const at::ScalarType sum_dtype = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const at::Tensor& labels = inputs[kLabels];
    if (labels.device().is_cpu()) {
      check_labels(labels);
    }
    TENON_CHECK(is_same_but_last_one(logits.sizes(), labels.sizes()),
                "logits of shape ",
                logits.sizes(),
                " and labels of shape ",
                labels.sizes(),
                " do not match; they must be equal except for a last axis of size 1");
    const at::Tensor weights = weights_of(inputs, labels, sum_dtype).reshape(logits.sizes());
    const at::Tensor wanted = labels.to(sum_dtype)
                                  .masked_fill(labels.eq(options_.ignore_index), 0.0)
                                  .reshape(logits.sizes());
    return at::binary_cross_entropy_with_logits(logits.to(sum_dtype),
                                                wanted,
                                                weights,
                                                positive_weight(logits, sum_dtype),
                                                at::Reduction::Sum);
  }

 private:
  enum Port : size_t { kLogits, kLabels, kSampleWeight };

  static bool is_same_but_last_one(at::IntArrayRef a, at::IntArrayRef b) {
    const at::IntArrayRef& longer = a.size() > b.size() ? a : b;
    const at::IntArrayRef& shorter = a.size() > b.size() ? b : a;
    return a == b || (longer.size() == shorter.size() + 1 && longer.back() == 1 &&
                      longer.slice(0, shorter.size()) == shorter);
  }

  // Weight of each label, in the labels' shape: 0 if ignored, else the sample's weight.
  at::Tensor weights_of(const tenon::TorchInputs& inputs,
                        const at::Tensor& labels,
                        at::ScalarType dtype) const {
    at::Tensor weights = labels.ne(options_.ignore_index).to(dtype);
    if (!inputs.has(kSampleWeight)) {
      return weights;
    }
    const at::Tensor& by_sample = inputs[kSampleWeight];
    TENON_CHECK(by_sample.dim() == 1 && labels.dim() >= 1 && by_sample.size(0) == labels.size(0),
                "sample_weight of shape ",
                by_sample.sizes(),
                " does not match labels of shape ",
                labels.sizes(),
                "; expected one weight per sample");
    std::vector<int64_t> ones(static_cast<size_t>(labels.dim()), 1);
    ones[0] = -1;
    return weights * by_sample.to(dtype).reshape(ones);
  }

  std::optional<at::Tensor> positive_weight(const at::Tensor& logits, at::ScalarType dtype) const {
    const auto num_weights = static_cast<int64_t>(options_.pos_weight.size());
    if (num_weights == 0) {
      return std::nullopt;
    }
    TENON_CHECK(num_weights == 1 || (logits.dim() >= 1 && logits.size(-1) == num_weights),
                "the option `pos_weight` has ",
                num_weights,
                " weights, but logits of shape ",
                logits.sizes(),
                " have a different last axis; expected 1 weight or one per position");
    return at::tensor(options_.pos_weight, at::TensorOptions(at::kDouble))
        .to(logits.device(), dtype, /*non_blocking=*/true);
  }

  // Finds a label out of range, with value and position. NaN is out of range too.
  void check_labels(const at::Tensor& labels) const {
    const at::Tensor is_legal =
        labels.ge(0).logical_and(labels.le(1)).logical_or(labels.eq(options_.ignore_index));
    if (is_legal.all().item<bool>()) {
      return;
    }
    const int64_t index = is_legal.reshape({-1}).logical_not().nonzero()[0].item<int64_t>();
    TENON_FAIL(TENON_INVALID,
               "bce_with_logits.label",
               "label ",
               labels.reshape({-1})[index].item<double>(),
               " at position ",
               index,
               " of labels ",
               labels.sizes(),
               " is neither in [0, 1] nor ignore_index (",
               options_.ignore_index,
               ")");
  }

  Options options_;
};

}  // namespace

TENON_PLUGIN(BceWithLogits)
