// SPDX-License-Identifier: Apache-2.0
//
// A language model whose blocks ranks of a tensor group divide: an embedding, attention with a
// fused matrix and a norm over all queries, two feed-forward layers, one of them with a backward of
// its own, and a head. With a fault, a block declares or computes something wrongly; without, all
// are right.
#include <tenon/cpp/plugin.hpp>
#include <tenon/draft/tensor.h>
#include <tenon/torch/model.hpp>
#include <tenon/torch/ops.hpp>

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

namespace {

constexpr int64_t kVocabulary = 16;
constexpr int64_t kWidth = 8;
constexpr int64_t kHeadWidth = 2;
constexpr int64_t kHeads = 4;
constexpr int64_t kKeyHeads = 2;
constexpr int64_t kInner = 12;
constexpr double kEps = 1e-6;

namespace ops = tenon::ops;
using tenon::BlockCall;

class TensorFaults final : public tenon::TorchModel {
 public:
  static constexpr const char* kType = "tensor_faults";
  static constexpr const char* kSummary = "for tests: blocks that ranks may divide wrongly";
  struct Options {
    std::string fault;
  };
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("fault", &Options::fault).doc("what is wrong with a block; \"\": nothing");
  }

  explicit TensorFaults(const Options& options) : fault_(options.fault) {}

  void describe(tenon::TorchGraph& g) override {
    const tenon::Axes axes = {"B", "T", kWidth};
    const auto ids = g.input("input_ids", {"B", "T"}, TENON_I64);
    const auto x = g.value("x", axes);
    const auto places = g.value("places", {"B", "T"}, TENON_I64);
    g.block("embed",
            {ids},
            {x},
            {weight(g, "tokens", {kVocabulary, kWidth}, {0, {kVocabulary}, {kVocabulary}})},
            [](const BlockCall& b) {
              const at::Tensor in = ops::tensor_in(b.input(0));
              return ops::tensor_out(ops::embedding_over(b.parameter(0), in, kVocabulary));
            })
        .flags(TENON_BLOCK_DIVISIBLE);
    g.block("count", {ids}, {places}, {}, [](const BlockCall& b) {
      const at::Tensor& of = b.input(0);
      return at::arange(of.size(1), of.options()).expand(of.sizes()).contiguous();
    });
    const auto attended = g.value("attended", axes);
    add_attention(g, x, places, attended);
    const auto fed = g.value("fed", axes);
    add_feed(g, attended, fed);
    const auto handed = g.value("handed", axes);
    add_by_hand(g, fed, handed);
    add_head(g, handed);
  }

 private:
  bool is(const char* fault) const { return fault_ == fault; }

  static tenon::ParameterId weight(tenon::TorchGraph& g,
                                   const std::string& name,
                                   const std::vector<int64_t>& shape,
                                   const tenon::Split& split = {},
                                   uint32_t flags = 0) {
    return g.parameter(name, shape, tenon::Init::normal(0, 0.4), flags, split);
  }

  // ---- attention ----

  void add_attention(tenon::TorchGraph& g,
                     tenon::ValueId x,
                     tenon::ValueId places,
                     tenon::ValueId y) {
    const int64_t queries = kHeads * kHeadWidth;
    const int64_t keys = kKeyHeads * kHeadWidth;
    const int64_t rows = queries + 2 * keys;
    const int64_t key_units = is("units") ? keys : kKeyHeads;
    const tenon::Split heads =
        is("one_part") ? tenon::Split{0, {rows}, {kHeads + 2 * kKeyHeads}}
                       : tenon::Split{0, {queries, keys, keys}, {kHeads, key_units, key_units}};
    g.block("attend",
            {x, places},
            {y},
            {weight(g, "attend.norm", {kWidth}, {}, is("outside") ? TENON_PARAM_INSIDE : 0),
             weight(g, "qkv", {rows, kWidth}, heads),
             weight(g, "query.norm", {queries}, {0, {queries}, {kHeads}}),
             weight(g, "key.norm", {kHeadWidth}, {}, is("inside") ? 0 : TENON_PARAM_INSIDE),
             weight(g, "out", {kWidth, queries}, {1, {queries}, {kHeads}}),
             weight(g, "out.bias", {kWidth})},
            [this](const BlockCall& b) { return attend(b); })
        .flags(TENON_BLOCK_DIVISIBLE);
  }

  // Numbers of heads follow from the rows that this rank has.
  at::Tensor attend(const BlockCall& b) const {
    const at::Tensor normed = ops::rms_norm(b.input(0), b.parameter(0), kEps);
    const at::Tensor in = is("no_in") ? normed : ops::tensor_in(normed);
    const at::Tensor places = is("places") ? b.input(1) : ops::tensor_in(b.input(1));
    const at::Tensor qkv = ops::linear(in, {b.parameter(1)});
    const int64_t heads = qkv.size(2) / kHeadWidth;
    constexpr int64_t kGroup = kHeads / kKeyHeads;
    const int64_t num_keys = heads < kGroup + 2 ? 1 : heads / (kGroup + 2);
    const int64_t num_queries = heads - 2 * num_keys;
    const auto part = [&](int64_t first, int64_t num) {
      return qkv.narrow(2, first * kHeadWidth, num * kHeadWidth);
    };
    const at::Tensor q = wide_norm(part(0, num_queries), b.parameter(2)) *
                         (1 + 0.1 * places.unsqueeze(2).to(qkv.scalar_type()));
    const at::Tensor k = ops::rms_norm(
        part(num_queries, num_keys).unflatten(2, {num_keys, kHeadWidth}), b.parameter(3), kEps);
    const at::Tensor seen =
        ops::packed_attention(at::cat({q, k.flatten(2), part(num_queries + num_keys, num_keys)}, 2),
                              num_queries,
                              num_keys);
    const at::Tensor product = ops::linear(seen, {b.parameter(4)});
    if (is("residual")) {
      return ops::tensor_out(b.input(0) + product) + b.parameter(5);
    }
    const at::Tensor change = ops::tensor_out(product) + b.parameter(5);
    add_loss(b, is("aux") ? in : change);
    return b.input(0) + change;
  }

  at::Tensor wide_norm(const at::Tensor& x, const at::Tensor& scale) const {
    constexpr int64_t kWhole = kHeads * kHeadWidth;
    const at::Tensor mine = x.square().sum(-1, true);
    const at::Tensor squares =
        is("no_sum") ? mine : ops::sum_over(mine, x.size(2), is("sum") ? x.size(2) : kWhole);
    return x * at::rsqrt(squares / static_cast<double>(kWhole) + kEps) * scale;
  }

  static void add_loss(const BlockCall& b, const at::Tensor& y) {
    const int64_t tokens = y.size(0) * y.size(1);
    b.add_loss("squares", y.square().sum(), at::full({}, tokens, at::kDouble), 0.1);
  }

  // ---- feed-forward layers ----

  void add_feed(tenon::TorchGraph& g, tenon::ValueId x, tenon::ValueId y) {
    const tenon::Split rows{0, {kInner}, {kInner}};
    const tenon::Split columns{1, {kInner}, {kInner}};
    g.block("feed",
            {x},
            {y},
            {weight(g, "feed.norm", {kWidth}),
             weight(g, "up", {kInner, kWidth}, rows),
             weight(g, "up.bias", {kInner}, is("no_split") ? tenon::Split{} : rows),
             weight(g,
                    "down",
                    {kWidth, kInner},
                    is("axis") ? tenon::Split{0, {kWidth}, {kWidth}} : columns),
             weight(g, "down.bias", {kWidth})},
            [this](const BlockCall& b) { return feed(b); })
        .flags(TENON_BLOCK_DIVISIBLE | TENON_BLOCK_TOKENWISE);
  }

  at::Tensor feed(const BlockCall& b) const {
    const at::Tensor in = ops::tensor_in(ops::rms_norm(b.input(0), b.parameter(0), kEps));
    const at::Tensor entered = is("both") ? in * b.parameter(0) : in;
    const at::Tensor inner = at::gelu(at::linear(entered, b.parameter(1), b.parameter(2)));
    const at::Tensor product = ops::linear(inner, {b.parameter(3)});
    const at::Tensor bias = b.parameter(4);
    return b.input(0) + (is("no_out") ? product + bias
                         : is("bias") ? ops::tensor_out(product + bias)
                                      : ops::tensor_out(product) + bias);
  }

  // y = x + tanh(x w1^T) w2^T, with an inner width that is divided.
  void add_by_hand(tenon::TorchGraph& g, tenon::ValueId x, tenon::ValueId y) {
    g.block("by_hand",
            {x},
            {y},
            {weight(g, "hand.in", {kInner, kWidth}, {0, {kInner}, {kInner}}),
             weight(g, "hand.out", {kWidth, kInner}, {1, {kInner}, {kInner}})},
            [](const BlockCall& b) {
              const at::Tensor in = ops::tensor_in(b.input(0));
              const at::Tensor inner = at::tanh(at::linear(in, b.parameter(0)));
              b.save(in);
              b.save(inner);
              return b.input(0) + ops::tensor_out(at::linear(inner, b.parameter(1)));
            })
        .flags(TENON_BLOCK_DIVISIBLE | TENON_BLOCK_TOKENWISE)
        .backward([this](const tenon::BlockGradients& b) { by_hand_backward(b); });
  }

  void by_hand_backward(const tenon::BlockGradients& b) const {
    const at::Tensor in = b.saved(0);
    const at::Tensor inner = b.saved(1);
    const at::Tensor grad = is("hand_in") ? b.grad_output(0) : ops::tensor_in(b.grad_output(0));
    b.set_grad_parameter(1, at::mm(grad.flatten(0, 1).t(), inner.flatten(0, 1)));
    const at::Tensor of_inner = at::matmul(grad, b.parameter(1)) * (1 - inner.square());
    b.set_grad_parameter(0, at::mm(of_inner.flatten(0, 1).t(), in.flatten(0, 1)));
    if (b.wants_grad_input(0)) {
      const at::Tensor part = at::matmul(of_inner, b.parameter(0));
      b.set_grad_input(0, b.grad_output(0) + (is("hand_out") ? part : ops::tensor_out(part)));
    }
  }

  // ---- head ----

  void add_head(tenon::TorchGraph& g, tenon::ValueId x) {
    const tenon::Split units{2, {kVocabulary}, {kVocabulary}};
    const tenon::Split rows{0, {kVocabulary}, {kVocabulary}};
    const auto logits = g.value("logits",
                                {"B", "T", kVocabulary},
                                TENON_CLASS_COMPUTE,
                                is("logits") ? tenon::Split{} : units);
    g.block("head",
            {x},
            {logits},
            {weight(g, "head", {kVocabulary, kWidth}, is("head") ? tenon::Split{} : rows)},
            [](const BlockCall& b) {
              return ops::linear(ops::tensor_in(b.input(0)), {b.parameter(0)});
            })
        .flags(TENON_BLOCK_DIVISIBLE);
  }

  std::string fault_;
};

}  // namespace

TENON_PLUGIN(TensorFaults)
