// SPDX-License-Identifier: Apache-2.0
//
// Focal loss on at::Tensor: cross-entropy that gives easy labels less weight. Autograd computes the
// gradient.
//
//     sum over labels other than -100 of  (1 - p)^gamma * -log(p),  p = softmax(logits)[label]
//
// Shapes   logits [..., C] floating-point, labels [...] i64. N: labels of the microbatch
// Source   Lin et al., Focal Loss for Dense Object Detection (2017), equation 4
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/loss.hpp>

#include <ATen/ATen.h>

#include <cstdint>

namespace {

constexpr int64_t kIgnored = -100;
// Keeps the gradient finite where p rounds to 1.
constexpr double kSmallest = 1e-7;

struct MyPluginOptions {
  double gamma = 2.0;
};

class MyPlugin final : public tenon::TorchLoss {
 public:
  static constexpr const char* kType = "my_plugin";
  static constexpr const char* kSummary =
      "focal loss: cross-entropy with less weight on easy labels";
  using Options = MyPluginOptions;
  static void bind(tenon::OptionBinder<Options>& b) {
    b.field("gamma", &Options::gamma).min(0).doc("focus on hard labels; 0 is cross-entropy");
  }

  explicit MyPlugin(const Options& options) : options_(options) {}

  void describe(tenon::LossInfo& info) override {
    info.port("logits", {}, TENON_CLASS_FLOAT)
        .port("labels", {}, TENON_I64)
        .additive_over(TENON_ADDITIVE_TOKENS)
        .count_from_batch();
  }

  at::Tensor count(const tenon::Exec&, const tenon::TorchInputs& inputs) override {
    return inputs[kLabels].ne(kIgnored).sum(at::kDouble);
  }

  at::Tensor compute(const tenon::Exec&, const tenon::TorchInputs& inputs) override {
    const at::Tensor& logits = inputs[kLogits];
    const at::Tensor labels_N = inputs[kLabels].reshape({-1});
    TENON_CHECK(
        logits.dim() > 0 && logits.sizes().slice(0, logits.dim() - 1) == inputs[kLabels].sizes(),
        "logits of shape ",
        logits.sizes(),
        " do not match labels of shape ",
        inputs[kLabels].sizes(),
        "; logits have one more axis, that of the classes");
    // Model outputs may be bf16; sums need more bits.
    const at::ScalarType dtype = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const at::Tensor logits_NC = logits.reshape({labels_N.numel(), logits.size(-1)}).to(dtype);
    const at::Tensor index_N1 = labels_N.clamp_min(0).unsqueeze(1);
    const at::Tensor log_p_N = at::log_softmax(logits_NC, 1).gather(1, index_N1).squeeze(1);
    const at::Tensor miss_N = log_p_N.expm1().neg().clamp_min(kSmallest);  // 1 - p
    const at::Tensor loss_N = miss_N.pow(options_.gamma).mul(log_p_N).neg();
    return loss_N.masked_fill(labels_N.eq(kIgnored), 0).sum();
  }

 private:
  enum Port : size_t { kLogits, kLabels };

  Options options_;
};

}  // namespace

TENON_PLUGIN(MyPlugin)
