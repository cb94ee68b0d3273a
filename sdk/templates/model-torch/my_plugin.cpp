// SPDX-License-Identifier: Apache-2.0
//
// Predicts the next token from the current one: an embedding, `num_layers` residual layers and a
// head. Each is a block of the model, built from torch::nn::Module.
//
// Shapes   input_ids [B, T] i64, logits [B, T, vocab_size]
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/module.hpp>

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <string>

namespace {

// x + project(gelu(expand(norm(x))))
class ResidualImpl : public torch::nn::Module {
 public:
  explicit ResidualImpl(int64_t width)
      : norm_(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        expand_(register_module("expand", torch::nn::Linear(width, 4 * width))),
        project_(register_module("project", torch::nn::Linear(4 * width, width))) {}

  at::Tensor forward(const at::Tensor& x) {
    return x + project_->forward(at::gelu(expand_->forward(norm_->forward(x))));
  }

 private:
  torch::nn::LayerNorm norm_;
  torch::nn::Linear expand_;
  torch::nn::Linear project_;
};
TORCH_MODULE(Residual);

struct MyPluginOptions {
  int64_t vocab_size = 256;
  int64_t width = 64;
  int64_t num_layers = 2;
};

class MyPlugin final : public tenon::ModuleModel {
 public:
  static constexpr const char* kType = "my_plugin";
  static constexpr const char* kSummary = "predicts the next token from the current one";
  using Options = MyPluginOptions;
  static void bind(tenon::OptionBinder<Options>& b) {
    b.field("vocab_size", &Options::vocab_size)
        .min(1)
        .doc("vocabulary size; ids are in [0, vocab_size)");
    b.field("width", &Options::width).min(1).doc("width of the layers, in features");
    b.field("num_layers", &Options::num_layers).min(0).doc("number of residual layers");
  }

  explicit MyPlugin(const Options& options) : options_(options) {}

  void describe(tenon::ModuleGraph& g) override {
    const Options o = options_;
    const auto ids = g.input("input_ids", {"B", "T"}, TENON_I64);
    auto x = g.value("x", {"B", "T", o.width});
    g.module(
        "embed",
        {ids},
        {x},
        [o] { return torch::nn::Embedding(o.vocab_size, o.width); },
        [](torch::nn::Embedding& m, const at::Tensor& in) { return m->forward(in); });
    for (int64_t i = 0; i < o.num_layers; ++i) {
      const std::string number = std::to_string(i);
      const auto y = g.value("x" + number, {"B", "T", o.width});
      g.module(
          "layers." + number,
          {x},
          {y},
          [o] { return Residual(o.width); },
          [](Residual& m, const at::Tensor& in) { return m->forward(in); });
      x = y;
    }
    const auto logits = g.value("logits", {"B", "T", o.vocab_size});
    g.module(
        "head",
        {x},
        {logits},
        [o] {
          return torch::nn::Sequential(torch::nn::LayerNorm(torch::nn::LayerNormOptions({o.width})),
                                       torch::nn::Linear(o.width, o.vocab_size));
        },
        [](torch::nn::Sequential& m, const at::Tensor& in) { return m->forward(in); });
  }

 private:
  Options options_;
};

}  // namespace

TENON_PLUGIN(MyPlugin)
