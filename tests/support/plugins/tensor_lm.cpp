// SPDX-License-Identifier: Apache-2.0
//
// A language model whose blocks tensor ranks divide: tokens, a layer of attention, and a head.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/model.hpp>
#include <tenon/torch/ops.hpp>

#include <ATen/ATen.h>

namespace ops = tenon::ops;

constexpr int64_t kVocabulary = 16;
constexpr int64_t kWidth = 8;
constexpr int64_t kHeads = 4;
constexpr int64_t kHeadWidth = 6;

// This rank has some of the heads: as many as its rows of the weights have.
at::Tensor attend(const tenon::BlockCall& b) {
  const at::Tensor in = ops::tensor_in(ops::rms_norm(b.input(0), b.parameter(0), 1e-6));
  const auto heads = [&](size_t weight) {
    return ops::linear(in, {b.parameter(weight)}).unflatten(2, {-1, kHeadWidth});
  };
  const at::Tensor queries = ops::rms_norm(heads(1), b.parameter(4), 1e-6);
  const at::Tensor seen = ops::attention(queries, heads(2), heads(3)).flatten(2);
  const at::Tensor change = ops::tensor_out(ops::linear(seen, {b.parameter(5)}));
  return b.input(0) + change + b.parameter(6);
}

class TensorLm final : public tenon::TorchModel {
 public:
  static constexpr const char* kType = "tensor_lm";
  static constexpr const char* kSummary = "one layer of attention, divided among tensor ranks";

  void describe(tenon::TorchGraph& g) override {
    const auto weight = [&g](const char* name,
                             const std::vector<int64_t>& shape,
                             const tenon::Split& split = {},
                             uint32_t flags = 0) {
      return g.parameter(name, shape, tenon::Init::normal(0, 0.3), flags, split);
    };
    const int64_t all = kHeads * kHeadWidth;
    const tenon::Split heads{0, {all}, {kHeads}};
    const tenon::Split rows{0, {kVocabulary}, {kVocabulary}};
    const auto ids = g.input("input_ids", {"B", "T"}, TENON_I64);
    const auto x = g.value("x", {"B", "T", kWidth});
    const auto y = g.value("y", {"B", "T", kWidth});
    const auto logits = g.value(
        "logits", {"B", "T", kVocabulary}, TENON_CLASS_COMPUTE, {2, {kVocabulary}, {kVocabulary}});
    g.block("embed",
            {ids},
            {x},
            {weight("tokens", {kVocabulary, kWidth}, rows)},
            [](const tenon::BlockCall& b) {
              const at::Tensor in = ops::tensor_in(b.input(0));
              return ops::tensor_out(ops::embedding_over(b.parameter(0), in, kVocabulary));
            })
        .flags(TENON_BLOCK_DIVISIBLE);
    g.block("attend",
            {x},
            {y},
            {weight("norm", {kWidth}),
             weight("query", {all, kWidth}, heads),
             weight("key", {all, kWidth}, heads),
             weight("value", {all, kWidth}, heads),
             weight("query_norm", {kHeadWidth}, {}, TENON_PARAM_INSIDE),
             weight("out", {kWidth, all}, {1, {all}, {kHeads}}),
             weight("out_bias", {kWidth})},
            attend)
        .flags(TENON_BLOCK_DIVISIBLE);
    g.block("head",
            {y},
            {logits},
            {weight("head", {kVocabulary, kWidth}, rows)},
            [](const tenon::BlockCall& b) {
              return ops::linear(ops::tensor_in(b.input(0)), {b.parameter(0)});
            })
        .flags(TENON_BLOCK_DIVISIBLE);
  }
};

TENON_PLUGIN(TensorLm)
