// SPDX-License-Identifier: Apache-2.0
//
// Focal loss without libtorch: cross-entropy that gives easy labels less weight. It is built from
// operators that the host calls by name, and autograd computes the gradient. One binary works with
// every libtorch.
//
//     sum over labels other than -100 of  (1 - p)^gamma * -log(p),  p = softmax(logits)[label]
//
// Shapes   logits [..., C] floating-point, labels [...] i64. N: labels of the microbatch
// Source   Lin et al., Focal Loss for Dense Object Detection (2017), equation 4
#include <tenon/cpp/loss.hpp>
#include <tenon/cpp/op.hpp>
#include <tenon/cpp/plugin.hpp>

#include <cstdint>
#include <vector>

namespace {

constexpr int64_t kIgnored = -100;
// Keeps the gradient finite where p rounds to 1.
constexpr double kSmallest = 1e-7;

struct MyPluginOptions {
  double gamma = 2.0;
};

class MyPlugin final : public tenon::Loss {
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

  tenon::Tensor count(const tenon::Exec& exec, const tenon::TensorList& inputs) override {
    const tenon::Host& host = exec.host();
    const tenon::Tensor counted =
        tenon::call_op(host, "aten::ne.Scalar", {inputs[kLabels], kIgnored});
    return tenon::call_op(host, "aten::sum", {counted, tenon::Arg::dtype(TENON_F64)});
  }

  tenon::Tensor compute(const tenon::Exec& exec, const tenon::TensorList& inputs) override {
    const tenon::TensorRef logits = inputs[kLogits];
    const tenon::TensorRef labels = inputs[kLabels];
    TENON_CHECK(logits.ndim() == labels.ndim() + 1,
                "logits of shape ",
                logits.shape().text(),
                " do not match labels of shape ",
                labels.shape().text(),
                "; logits have one more axis, that of the classes");
    // Model outputs may be bf16; sums need more bits.
    const uint32_t dtype = logits.dtype() == TENON_F64 ? TENON_F64 : TENON_F32;
    const std::vector<int64_t> shape_NC = {labels.numel(), logits.size(-1)};
    const auto op = [&host = exec.host()](const char* name,
                                          std::initializer_list<tenon::Arg> args) {
      return tenon::call_op(host, name, args);
    };
    const auto logits_NC = op("aten::reshape", {logits, shape_NC});
    const auto labels_N = op("aten::reshape", {labels, std::vector<int64_t>{-1}});
    const auto index_N = op("aten::clamp_min", {labels_N, 0});  // -100 is no index
    const auto index_N1 = op("aten::unsqueeze", {index_N, 1});
    const auto log_p_NC = op("aten::log_softmax.int", {logits_NC, 1, tenon::Arg::dtype(dtype)});
    const auto log_p_N1 = op("aten::gather", {log_p_NC, 1, index_N1});
    const auto log_p_N = op("aten::squeeze.dim", {log_p_N1, 1});
    const auto hit_N = op("aten::expm1", {log_p_N});  // p - 1
    const auto miss_N = op("aten::clamp_min", {op("aten::neg", {hit_N}), kSmallest});
    const auto weight_N = op("aten::pow.Tensor_Scalar", {miss_N, options_.gamma});
    const auto loss_N = op("aten::neg", {op("aten::mul.Tensor", {weight_N, log_p_N})});
    const auto ignored_N = op("aten::eq.Scalar", {labels_N, kIgnored});
    return op("aten::sum", {op("aten::masked_fill.Scalar", {loss_N, ignored_N, 0})});
  }

 private:
  enum Port : size_t { kLogits, kLabels };

  Options options_;
};

}  // namespace

TENON_PLUGIN(MyPlugin)
