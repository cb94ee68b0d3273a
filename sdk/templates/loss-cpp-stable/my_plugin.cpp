// SPDX-License-Identifier: Apache-2.0
//
// Focal loss on libtorch's stable ABI: cross-entropy that gives easy labels less weight. The host
// calls the operators that the stable ABI lacks. Autograd records both, and computes the gradient.
// One binary runs with all libtorch releases from 2.11 on.
//
//     sum over labels other than -100 of  (1 - p)^gamma * -log(p),  p = softmax(logits)[label]
//
// Shapes   logits [..., C] floating-point, labels [...] i64. N: labels of the microbatch
// Source   Lin et al., Focal Loss for Dense Object Detection (2017), equation 4
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch_stable/loss.hpp>

#include <torch/csrc/stable/ops.h>

#include <cstdint>
#include <initializer_list>
#include <optional>

namespace {

namespace stable = torch::stable;
using tenon::borrow;
using torch::headeronly::ScalarType;

constexpr int64_t kIgnored = -100;
// Keeps the gradient finite where p rounds to 1.
constexpr double kSmallest = 1e-7;

struct MyPluginOptions {
  double gamma = 2.0;
};

class MyPlugin final : public tenon::StableTorchLoss {
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

  stable::Tensor count(const tenon::Exec& exec, const tenon::StableInputs& inputs) override {
    const stable::Tensor labels = inputs[kLabels];
    const stable::Tensor counted =
        tenon::stable_op(exec.host(), "aten::ne.Scalar", {borrow(labels), kIgnored});
    return stable::sum(counted, std::nullopt, false, ScalarType::Double);
  }

  stable::Tensor compute(const tenon::Exec& exec, const tenon::StableInputs& inputs) override {
    const stable::Tensor logits = inputs[kLogits];
    const stable::Tensor labels = inputs[kLabels];
    check_shapes(logits, labels);
    // An operator of the host, for those that torch/csrc/stable/ops.h lacks.
    const auto op = [&host = exec.host()](const char* name,
                                          std::initializer_list<tenon::Arg> args) {
      return tenon::stable_op(host, name, args);
    };
    // Model outputs may be bf16; sums need more bits.
    const bool is_double = logits.scalar_type() == ScalarType::Double;
    const ScalarType dtype = is_double ? ScalarType::Double : ScalarType::Float;
    const auto logits_NC =
        stable::to(stable::reshape(logits, {labels.numel(), logits.size(-1)}), dtype);
    const auto labels_N = stable::reshape(labels, {-1});
    const auto index_N = op("aten::clamp_min", {borrow(labels_N), 0});  // -100 is no index
    const auto index_N1 = stable::unsqueeze(index_N, 1);
    const auto log_p_NC = op("aten::log_softmax.int", {borrow(logits_NC), 1});
    const auto log_p_N1 = op("aten::gather", {borrow(log_p_NC), 1, borrow(index_N1)});
    const auto log_p_N = stable::squeeze(log_p_N1, 1);
    const auto hit_N = op("aten::expm1", {borrow(log_p_N)});  // p - 1
    const auto miss_N =
        op("aten::clamp_min", {borrow(op("aten::neg", {borrow(hit_N)})), kSmallest});
    const auto weight_N = op("aten::pow.Tensor_Scalar", {borrow(miss_N), options_.gamma});
    const auto gain_N = op("aten::mul.Tensor", {borrow(weight_N), borrow(log_p_N)});
    const auto ignored_N = op("aten::eq.Scalar", {borrow(labels_N), kIgnored});
    const auto counted_N = op("aten::masked_fill.Scalar", {borrow(gain_N), borrow(ignored_N), 0});
    return op("aten::neg", {borrow(stable::sum(counted_N))});
  }

 private:
  enum Port : size_t { kLogits, kLabels };

  static void check_shapes(const stable::Tensor& logits, const stable::Tensor& labels) {
    bool are_equal = logits.dim() == labels.dim() + 1;
    for (int64_t axis = 0; are_equal && axis < labels.dim(); ++axis) {
      are_equal = logits.size(axis) == labels.size(axis);
    }
    TENON_CHECK(are_equal,
                "logits with ",
                logits.dim(),
                " axes do not match labels with ",
                labels.dim(),
                " axes; logits have one more axis, that of the classes");
  }

  Options options_;
};

}  // namespace

TENON_PLUGIN(MyPlugin)
