// SPDX-License-Identifier: Apache-2.0
//
// A language model on libtorch's stable ABI whose blocks run on parts of sequences.
#include <tenon/cpp/model.hpp>
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch_stable/tensor.hpp>

#include <torch/csrc/stable/tensor.h>

#include <cstdint>

namespace {

namespace stable = torch::stable;

constexpr int64_t kVocabulary = 16;
constexpr int64_t kWidth = 8;
constexpr int64_t kHeads = 2;

class PartStable final : public tenon::Model {
 public:
  static constexpr const char* kType = "part_stable";
  static constexpr const char* kSummary = "for tests: stable tensors on parts of sequences";

  void on_describe(tenon::Graph& g) override {
    const tenon::Init init = tenon::Init::normal(0, 0.3);
    const auto ids = g.input("input_ids", {"B", "T"}, TENON_I64);
    const auto x = g.value("x", {"B", "T", kWidth});
    const auto logits = g.value("logits", {"B", "T", kVocabulary});
    const auto tokens = g.parameter("tokens", {kVocabulary, kWidth}, init);
    const auto qkv = g.parameter("qkv", {3 * kWidth, kWidth}, init);
    const auto head = g.parameter("head", {kVocabulary, kWidth}, init);
    g.add_block({"embed", {ids}, {x}, {tokens}, {}, TENON_BLOCK_TOKENWISE});
    g.add_block({"attend", {x}, {logits}, {qkv, head}, {}, TENON_BLOCK_CONTEXT});
  }

  void on_forward(const tenon::Exec& exec, tenon_forward_args& args) override {
    const tenon::Host& host = exec.host();
    const stable::Tensor input = tenon::to_stable(args.inputs[0]);
    const stable::Tensor weight = tenon::to_stable(args.parameters[0]);
    if (args.block == 0) {
      const stable::Tensor x =
          tenon::stable_op(host, "tenon::embedding", {tenon::borrow(weight), tenon::borrow(input)});
      args.outputs_own[0] = tenon::wrap(host, x);
      return;
    }
    const auto linear = [&host](const stable::Tensor& x, const stable::Tensor& w) {
      return tenon::stable_op(host, "aten::linear", {tenon::borrow(x), tenon::borrow(w), nullptr});
    };
    const stable::Tensor qkv = linear(input, weight);
    const stable::Tensor seen =
        tenon::stable_op(host, "tenon::packed_attention", {tenon::borrow(qkv), kHeads, kHeads});
    args.outputs_own[0] = tenon::wrap(host, linear(seen, tenon::to_stable(args.parameters[1])));
  }
};

}  // namespace

TENON_PLUGIN(PartStable)
