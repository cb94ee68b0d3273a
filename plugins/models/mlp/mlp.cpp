// SPDX-License-Identifier: Apache-2.0
//
// A multilayer perceptron: a module as a model plugin. It is a single block, since its layers are
// too small to run as separate units.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/module.hpp>
#include <tenon/torch/ops.hpp>

#include <ATen/Functions.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../size_limits.hpp"

namespace {

using Activation = at::Tensor (*)(const at::Tensor&);

Activation activation_of(const std::string& name) {
  if (name == "relu") {
    return [](const at::Tensor& x) { return at::relu(x); };
  }
  if (name == "gelu") {
    return [](const at::Tensor& x) { return at::gelu(x); };
  }
  if (name == "silu") {
    return [](const at::Tensor& x) { return at::silu(x); };
  }
  return [](const at::Tensor& x) { return at::tanh(x); };
}

// Layers with the names of a torch::nn::Sequential of linear layers, activations and dropout. That
// module prepares an error message in each call of a layer, which takes as long as small layers.
struct LayersImpl : torch::nn::Module {
  std::vector<torch::nn::Linear> linear;
  std::vector<torch::nn::Dropout> dropout;  // after each hidden layer, or none
  Activation activation = nullptr;

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = x;
    for (size_t i = 0; i < linear.size(); ++i) {
      const torch::nn::LinearImpl& layer = *linear[i];
      const at::Tensor& bias = layer.bias;
      y = tenon::ops::linear(
          y, {layer.weight}, bias.defined() ? std::optional(bias) : std::nullopt);
      if (i + 1 < linear.size()) {
        y = activation(y);
        if (!dropout.empty()) {
          y = dropout[i]->forward(y);
        }
      }
    }
    return y;
  }
};
TORCH_MODULE(Layers);

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
        "mlp",
        {x},
        {logits},
        [o = options_] { return build(o); },
        [](Layers& layers, const at::Tensor& in) { return layers->forward(in); });
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
  static Layers build(const Options& o) {
    Layers layers;
    layers->activation = activation_of(o.activation);
    size_t number = 0;  // of a module
    int64_t width = o.in_features;
    const auto add_linear = [&](int64_t out) {
      torch::nn::Linear layer(torch::nn::LinearOptions(width, out).bias(o.bias));
      layers->linear.push_back(layers->register_module(std::to_string(number++), layer));
      width = out;
    };
    for (const int64_t next : o.hidden) {
      add_linear(next);
      ++number;  // the activation, which has no parameters
      if (o.dropout > 0) {
        const torch::nn::Dropout drop(o.dropout);
        layers->dropout.push_back(layers->register_module(std::to_string(number++), drop));
      }
    }
    add_linear(o.out_features);
    return layers;
  }

  Options options_;
};

TENON_PLUGIN(Mlp)
