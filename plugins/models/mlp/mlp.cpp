// SPDX-License-Identifier: Apache-2.0
//
// A multilayer perceptron: a torch::nn::Sequential as a model plugin. It is a single block, since
// its layers are too small to run as separate units.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/module.hpp>
#include <tenon/torch/ops.hpp>

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../size_limits.hpp"

namespace {

// torch::nn::Linear by the host's operator.
struct LinearLayerImpl : torch::nn::LinearImpl {
  using torch::nn::LinearImpl::LinearImpl;
  at::Tensor forward(const at::Tensor& x) {
    return tenon::ops::linear(x, {weight}, bias.defined() ? std::optional(bias) : std::nullopt);
  }
};
TORCH_MODULE(LinearLayer);

}  // namespace

class Mlp final : public tenon::ModuleModel {
 public:
  static constexpr const char* kType = "mlp";
  static constexpr const char* kSummary = "multilayer perceptron over one dense field";

  struct Options {
    std::string input = "x";
    int64_t in_features = 1;
    std::vector<int64_t> hidden = {128};
    int64_t out_features = 1;
    std::string activation = "relu";
    double dropout = 0.0;
    bool bias = true;
  };
  static void bind(tenon::OptionBinder<Options>& b) {
    b.field("input", &Options::input).doc("name of the input field, [B, in_features]").non_empty();
    b.field("in_features", &Options::in_features)
        .min(1)
        .max(tenon::kMaxWidth)
        .required()
        .doc("width of the input");
    b.field("hidden", &Options::hidden)
        .min(1)
        .max(tenon::kMaxWidth)
        .doc("widths of the hidden layers, in order");
    b.field("out_features", &Options::out_features)
        .min(1)
        .max(tenon::kMaxWidth)
        .required()
        .doc("width of `logits`");
    b.field("activation", &Options::activation)
        .choices({"relu", "gelu", "silu", "tanh"})
        .doc("activation after each hidden layer");
    b.field("dropout", &Options::dropout)
        .min(0)
        .exclusive_max(1)
        .doc("dropout probability of hidden layers in training");
    b.field("bias", &Options::bias).doc("whether layers have a bias");
  }

  explicit Mlp(const Options& options) : options_(options) {}

  void describe(tenon::ModuleGraph& g) override {
    const auto x = g.input(options_.input, {"B", options_.in_features}, TENON_CLASS_COMPUTE);
    const auto logits = g.value("logits", {"B", options_.out_features});
    g.module(
        "mlp", {x}, {logits}, [o = options_] { return build(o); }, run);
  }

  // Per hidden layer, autograd saves the next layer's input, the tensor that the activation's
  // gradient needs if it is a different one, and the dropout mask.
  void on_infer(const tenon::Exec& exec, tenon_infer_args& args) override {
    TENON_CHECK(args.block == 0 && args.num_inputs == 1 && args.num_outputs == 1 &&
                    args.input_ndims[0] == 2,
                "infer: block ",
                args.block,
                " of 1 called with unexpected inputs");
    const auto samples = static_cast<double>(args.input_shapes[0][0]);
    const auto bytes =
        static_cast<double>(c10::elementSize(tenon::scalar_type(exec.compute_dtype())));
    const bool by_result = options_.activation == "relu" || options_.activation == "tanh";
    const double tensors = options_.dropout > 0 ? 3 : (by_result ? 1 : 2);
    double products = 0;
    double kept = 0;
    double parameters = 0;
    double widest = 0;
    auto width = static_cast<double>(options_.in_features);
    const auto add_layer = [&](int64_t next) {
      products += width * static_cast<double>(next);
      parameters += (width + (options_.bias ? 1 : 0)) * static_cast<double>(next);
      width = static_cast<double>(next);
      widest = std::max(widest, width);
    };
    for (const int64_t next : options_.hidden) {
      add_layer(next);
      kept += tensors * samples * width * bytes;
    }
    add_layer(options_.out_features);
    args.out_flops = 2 * samples * products;
    args.out_saved_bytes = kept;
    args.out_working_bytes = (parameters + 2 * samples * widest) * bytes;
    args.out_ndims[0] = 2;
    args.out_shapes[0][0] = args.input_shapes[0][0];
    args.out_shapes[0][1] = options_.out_features;
  }

 private:
  static torch::nn::Sequential build(const Options& o) {
    torch::nn::Sequential layers;
    int64_t width = o.in_features;
    for (const int64_t next : o.hidden) {
      layers->push_back(LinearLayer(torch::nn::LinearOptions(width, next).bias(o.bias)));
      if (o.activation == "relu") {
        layers->push_back(torch::nn::ReLU());
      } else if (o.activation == "gelu") {
        layers->push_back(torch::nn::GELU());
      } else if (o.activation == "silu") {
        layers->push_back(torch::nn::SiLU());
      } else {
        layers->push_back(torch::nn::Tanh());
      }
      if (o.dropout > 0) {
        layers->push_back(torch::nn::Dropout(o.dropout));
      }
      width = next;
    }
    layers->push_back(LinearLayer(torch::nn::LinearOptions(width, o.out_features).bias(o.bias)));
    return layers;
  }
  static at::Tensor run(torch::nn::Sequential& layers, const at::Tensor& x) {
    return layers->forward(x);
  }

  Options options_;
};

TENON_PLUGIN(Mlp)
