// SPDX-License-Identifier: Apache-2.0
//
// Predicts the next token from the previous one: a model of two blocks, built from
// torch::nn::Module.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/module.hpp>

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>

class TinyNet final : public tenon::ModuleModel {
 public:
  static constexpr const char* kType = "tiny_net";
  static constexpr const char* kSummary = "Predicts the next token from the previous one";

  struct Options {
    int64_t vocab_size = 256;
    int64_t width = 32;
  };
  static void bind(tenon::OptionBinder<Options>& b) {
    b.field("vocab_size", &Options::vocab_size)
        .min(1)
        .doc("vocabulary size; ids are in [0, vocab_size)");
    b.field("width", &Options::width).min(1).doc("width of the hidden layer, in features");
  }

  explicit TinyNet(const Options& options) : o_(options) {}

  void describe(tenon::ModuleGraph& g) override {
    const auto ids = g.input("input_ids", {"B", "T"}, TENON_I64);
    const auto x = g.value("x", {"B", "T", o_.width});
    const auto logits = g.value("logits", {"B", "T", o_.vocab_size});
    g.module(
        "embed",
        {ids},
        {x},
        [o = o_] { return torch::nn::Embedding(o.vocab_size, o.width); },
        [](torch::nn::Embedding& m, const at::Tensor& in) { return m->forward(in); });
    g.module(
        "head",
        {x},
        {logits},
        [o = o_] {
          return torch::nn::Sequential(torch::nn::Linear(o.width, o.width),
                                       torch::nn::Tanh(),
                                       torch::nn::Linear(o.width, o.vocab_size));
        },
        [](torch::nn::Sequential& m, const at::Tensor& in) { return m->forward(in); });
  }

 private:
  Options o_;
};

TENON_PLUGIN(TinyNet)
