// SPDX-License-Identifier: Apache-2.0
//
// A language model whose blocks run on parts of sequences: tokens and learned positions, one layer
// of attention with an auxiliary loss, and a head.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/model.hpp>
#include <tenon/torch/ops.hpp>

#include <ATen/ATen.h>

constexpr int64_t kVocabulary = 16;
constexpr int64_t kWidth = 8;
constexpr int64_t kHeads = 2;
constexpr int64_t kPositions = 64;

class PartLm final : public tenon::TorchModel {
 public:
  static constexpr const char* kType = "part_lm";
  static constexpr const char* kSummary = "one layer of attention, on parts of sequences";

  void describe(tenon::TorchGraph& g) override {
    const auto matrix = [&g](const char* name, int64_t rows) {
      return g.parameter(name, {rows, kWidth}, tenon::Init::normal(0, 0.2));
    };
    const auto ids = g.input("input_ids", {"B", "T"}, TENON_I64);
    const auto positions = g.optional_input("position_ids", {"B", "T"}, TENON_I64);
    const auto x = g.value("x", {"B", "T", kWidth});
    const auto y = g.value("y", {"B", "T", kWidth});
    const auto logits = g.value("logits", {"B", "T", kVocabulary});
    g.block("embed",
            {ids, positions},
            {x},
            {matrix("tokens", kVocabulary), matrix("places", kPositions)},
            [](const tenon::BlockCall& b) {
              const at::Tensor& tokens = b.input(0);
              // A part always has position_ids: without them, the sequence is whole.
              const at::Tensor places =
                  b.has_input(1) ? b.input(1) : at::arange(tokens.size(1), tokens.options());
              return tenon::ops::embedding(b.parameter(0), tokens) +
                     tenon::ops::embedding(b.parameter(1), places);
            })
        .flags(TENON_BLOCK_CONTEXT);
    g.block("attend",
            {x},
            {y},
            {matrix("qkv", 3 * kWidth), matrix("out", kWidth)},
            [](const tenon::BlockCall& b) {
              const at::Tensor qkv = tenon::ops::linear(b.input(0), {b.parameter(0)});
              const at::Tensor seen = tenon::ops::packed_attention(qkv, kHeads, kHeads);
              const at::Tensor change = tenon::ops::linear(seen, {b.parameter(1)});
              const int64_t tokens = change.size(0) * change.size(1);
              b.add_loss("change", change.square().sum(), at::full({}, tokens, at::kDouble), 0.01);
              return b.input(0) + change;
            })
        .flags(TENON_BLOCK_CONTEXT);
    g.block("head", {y}, {logits}, {matrix("head", kVocabulary)}, [](const tenon::BlockCall& b) {
       return tenon::ops::linear(b.input(0), {b.parameter(0)});
     }).flags(TENON_BLOCK_TOKENWISE);
  }
};

TENON_PLUGIN(PartLm)
