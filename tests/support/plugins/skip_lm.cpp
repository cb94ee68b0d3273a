// SPDX-License-Identifier: Apache-2.0
//
// A language model of four modules whose head also reads the embedding, past the two layers.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/module.hpp>

#include <ATen/ATen.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <memory>

namespace {

struct SkipLmOptions {
  int64_t vocab_size = 16;
  int64_t dim = 6;
  bool loses_gradient = false;
};

class SkipLm final : public tenon::ModuleModel {
 public:
  static constexpr const char* kType = "skip_lm";
  static constexpr const char* kSummary = "Test: a value that skips two layers";
  using Options = SkipLmOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("vocab_size", &Options::vocab_size).min(1).doc("tokens are below it");
    binder.field("dim", &Options::dim).min(1).doc("width");
    binder.field("loses_gradient", &Options::loses_gradient)
        .doc("the head gives the embedding no gradient");
  }

  explicit SkipLm(const Options& options) : options_(options) {}

  void describe(tenon::ModuleGraph& g) override {
    const auto [vocab, dim, loses_gradient] = options_;
    const auto layer = [&g, dim = dim](const char* name, auto from, auto to) {
      g.module(
          name,
          {from},
          {to},
          [dim] { return torch::nn::Linear(dim, dim); },
          [](auto& module, const at::Tensor& x) { return at::tanh(module->forward(x)); });
    };
    const auto ids = g.input("input_ids", {"B", "T"}, TENON_I64);
    const auto x = g.value("x", {"B", "T", dim});
    g.module(
        "embed",
        {ids},
        {x},
        [vocab = vocab, dim = dim] { return torch::nn::Embedding(vocab, dim); },
        [](auto& module, const at::Tensor& tokens) { return module->forward(tokens); });
    const auto first = g.value("first", {"B", "T", dim});
    layer("layer_1", x, first);
    const auto second = g.value("second", {"B", "T", dim});
    layer("layer_2", first, second);
    const auto logits = g.value("logits", {"B", "T", vocab});
    g.module(
        "head",
        {second, x},
        {logits},
        [vocab = vocab, dim = dim] { return torch::nn::Linear(dim, vocab); },
        [loses_gradient = loses_gradient](
            auto& module, const at::Tensor& h, const at::Tensor& skipped) {
          return module->forward(h + (loses_gradient ? skipped.detach() : skipped));
        });
  }

 private:
  Options options_;
};

}  // namespace

TENON_PLUGIN(SkipLm)
