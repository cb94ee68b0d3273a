// SPDX-License-Identifier: Apache-2.0
//
// A language model of torch::nn modules whose blocks run on parts of sequences.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/module.hpp>
#include <tenon/torch/ops.hpp>

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <memory>

namespace {

constexpr int64_t kVocabulary = 16;
constexpr int64_t kWidth = 8;
constexpr int64_t kHeads = 2;

struct Attend : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x_BTD) {
    return x_BTD + out->forward(tenon::ops::packed_attention(qkv->forward(x_BTD), kHeads, kHeads));
  }
  torch::nn::Linear qkv = register_module("qkv", torch::nn::Linear(kWidth, 3 * kWidth));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(kWidth, kWidth));
};

class PartModule final : public tenon::ModuleModel {
 public:
  static constexpr const char* kType = "part_module";
  static constexpr const char* kSummary = "for tests: modules on parts of sequences";

  void describe(tenon::ModuleGraph& g) override {
    const auto run = [](auto& module, const at::Tensor& x) { return module->forward(x); };
    const auto ids = g.input("input_ids", {"B", "T"}, TENON_I64);
    const auto x = g.value("x", {"B", "T", kWidth});
    const auto y = g.value("y", {"B", "T", kWidth});
    const auto logits = g.value("logits", {"B", "T", kVocabulary});
    const auto embedding = [] { return torch::nn::Embedding(kVocabulary, kWidth); };
    const auto head = [] { return torch::nn::Linear(kWidth, kVocabulary); };
    g.module("embed", {ids}, {x}, embedding, run, TENON_BLOCK_TOKENWISE);
    g.module("attend", {x}, {y}, std::make_shared<Attend>, run, TENON_BLOCK_CONTEXT);
    g.module("head", {y}, {logits}, head, run, TENON_BLOCK_TOKENWISE);
  }
};

}  // namespace

TENON_PLUGIN(PartModule)
