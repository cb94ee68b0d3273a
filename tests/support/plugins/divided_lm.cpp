// SPDX-License-Identifier: Apache-2.0
//
// A language model that ranks of a tensor group divide: attention with a fused matrix of queries,
// keys and values, a feed-forward layer, a block with a backward of its own, a head whose logits
// are divided, and its matrix in use by another block. The embedding declares nothing.
//
//   parameter           split
//   tokens, norms       none
//   qkv                 queries, keys and values by heads
//   scale               none; used inside of the region
//   out.bias, down.bias none; added outside of it
//   head.weight         rows, also of the block `echo`
#include <tenon/cpp/plugin.hpp>
#include <tenon/draft/context.h>
#include <tenon/draft/tensor.h>
#include <tenon/torch/model.hpp>
#include <tenon/torch/ops.hpp>

#include <ATen/ATen.h>

#include <optional>
#include <string>

namespace {

constexpr int64_t kWidth = 8;
constexpr int64_t kHeadWidth = 2;
constexpr int64_t kHeads = 4;
constexpr int64_t kInner = 12;
constexpr uint32_t kFlags = TENON_BLOCK_DIVISIBLE | TENON_BLOCK_CONTEXT;

namespace ops = tenon::ops;

struct DividedLmOptions {
  int64_t key_heads = 2;
  int64_t vocab_size = 16;
};

at::Tensor normed(const at::Tensor& x, const at::Tensor& weight) {
  return ops::rms_norm(x, weight, 1e-6);
}

// Numbers of heads follow from the rows that this rank has.
at::Tensor attend(const tenon::BlockCall& b, int64_t key_heads) {
  const at::Tensor in = ops::tensor_in(normed(b.input(0), b.parameter(0)));
  const at::Tensor qkv = ops::linear(in, {b.parameter(1)});
  const int64_t rows = qkv.size(2) / kHeadWidth;
  const int64_t group = kHeads / key_heads;
  const int64_t keys = rows < group + 2 ? 1 : rows / (group + 2);
  const int64_t queries = rows - 2 * keys;
  const int64_t width = queries * kHeadWidth;
  const at::Tensor q = qkv.narrow(2, 0, width).unflatten(2, {queries, kHeadWidth}) * b.parameter(2);
  const at::Tensor seen = ops::packed_attention(
      at::cat({q.flatten(2), qkv.narrow(2, width, qkv.size(2) - width)}, 2), queries, keys);
  const at::Tensor change = ops::tensor_out(ops::linear(seen, {b.parameter(3)})) + b.parameter(4);
  const int64_t tokens = change.size(0) * change.size(1);
  b.add_loss("change", change.square().sum(), at::full({}, tokens, at::kDouble), 0.01);
  return b.input(0) + change;
}

at::Tensor feed(const tenon::BlockCall& b) {
  const at::Tensor in = ops::tensor_in(normed(b.input(0), b.parameter(0)));
  const at::Tensor inner = at::gelu(at::linear(in, b.parameter(1), b.parameter(2)));
  const at::Tensor change = ops::tensor_out(ops::linear(inner, {b.parameter(3)})) + b.parameter(4);
  return b.input(0) + change;
}

// y = x + tanh(x w1^T) w2^T, with an inner width that is divided.
at::Tensor by_hand(const tenon::BlockCall& b) {
  const at::Tensor in = ops::tensor_in(b.input(0));
  const at::Tensor inner = at::tanh(at::linear(in, b.parameter(0)));
  b.save(in);
  b.save(inner);
  return b.input(0) + ops::tensor_out(at::linear(inner, b.parameter(1)));
}

void by_hand_backward(const tenon::BlockGradients& b) {
  const at::Tensor in = b.saved(0).flatten(0, 1);
  const at::Tensor inner = b.saved(1).flatten(0, 1);
  const at::Tensor grad = ops::tensor_in(b.grad_output(0)).flatten(0, 1);
  b.set_grad_parameter(1, at::mm(grad.t(), inner));
  const at::Tensor of_inner = at::mm(grad, b.parameter(1)) * (1 - inner.square());
  b.set_grad_parameter(0, at::mm(of_inner.t(), in));
  if (b.wants_grad_input(0)) {
    const at::Tensor part = at::mm(of_inner, b.parameter(0)).view(b.saved(0).sizes());
    b.set_grad_input(0, b.grad_output(0) + ops::tensor_out(part));
  }
}

class DividedLm final : public tenon::TorchModel {
 public:
  using Options = DividedLmOptions;
  static constexpr const char* kType = "divided_lm";
  static constexpr const char* kSummary = "Test: blocks that ranks of a tensor group divide";
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("key_heads", &Options::key_heads).min(1).max(kHeads).doc("heads of keys");
    binder.field("vocab_size", &Options::vocab_size).min(kWidth).doc("number of classes");
  }

  explicit DividedLm(const Options& options) : options_(options) {}

  void describe(tenon::TorchGraph& g) override {
    const tenon::Axes axes = {"B", "T", kWidth};
    const auto ids = g.input("input_ids", {"B", "T"}, TENON_I64);
    const auto x = g.value("x", axes);
    g.block("embed", {ids}, {x}, {weight(g, "tokens", {options_.vocab_size, kWidth})}, [](auto& b) {
       return ops::embedding(b.parameter(0), b.input(0));
     }).flags(TENON_BLOCK_TOKENWISE);
    const auto attended = add_attention(g, x);
    const auto fed = g.value("fed", axes);
    const tenon::Split rows{0, {kInner}, {kInner}};
    const tenon::Split columns{1, {kInner}, {kInner}};
    g.block("feed",
            {attended},
            {fed},
            {norm(g, "feed.norm", {kWidth}),
             weight(g, "up.weight", {kInner, kWidth}, rows),
             weight(g, "up.bias", {kInner}, rows),
             weight(g, "down.weight", {kWidth, kInner}, columns),
             weight(g, "down.bias", {kWidth})},
            feed)
        .flags(TENON_BLOCK_DIVISIBLE | TENON_BLOCK_TOKENWISE);
    const auto handed = g.value("handed", axes);
    g.block("by_hand",
            {fed},
            {handed},
            {weight(g, "in.weight", {kInner, kWidth}, rows),
             weight(g, "outer.weight", {kWidth, kInner}, columns)},
            by_hand)
        .flags(TENON_BLOCK_DIVISIBLE | TENON_BLOCK_TOKENWISE)
        .backward(by_hand_backward);
    add_head(g, handed);
  }

 private:
  static tenon::ParameterId weight(tenon::TorchGraph& g,
                                   const std::string& name,
                                   const std::vector<int64_t>& shape,
                                   const tenon::Split& split = {},
                                   uint32_t flags = 0) {
    return g.parameter(name, shape, tenon::Init::normal(0, 0.2), flags, split);
  }
  static tenon::ParameterId norm(tenon::TorchGraph& g,
                                 const std::string& name,
                                 const std::vector<int64_t>& shape,
                                 uint32_t flags = 0) {
    return g.parameter(name, shape, tenon::Init::ones(), flags);
  }

  tenon::ValueId add_attention(tenon::TorchGraph& g, tenon::ValueId x) const {
    const int64_t keys = options_.key_heads;
    const auto y = g.value("attended", {"B", "T", kWidth});
    const tenon::Split heads{
        0, {kHeads * kHeadWidth, keys * kHeadWidth, keys * kHeadWidth}, {kHeads, keys, keys}};
    const tenon::Split columns{1, {kWidth}, {kHeads}};
    g.block("attend",
            {x},
            {y},
            {norm(g, "attend.norm", {kWidth}),
             weight(g, "qkv.weight", {(kHeads + 2 * keys) * kHeadWidth, kWidth}, heads),
             norm(g, "scale", {kHeadWidth}, TENON_PARAM_INSIDE),
             weight(g, "out.weight", {kWidth, kWidth}, columns),
             weight(g, "out.bias", {kWidth})},
            [keys](const tenon::BlockCall& b) { return attend(b, keys); })
        .flags(kFlags);
    return y;
  }

  // The matrix of the head has a second user, which reads the logits as parts.
  void add_head(tenon::TorchGraph& g, tenon::ValueId x) const {
    const int64_t classes = options_.vocab_size;
    const tenon::Split rows{0, {classes}, {classes}};
    const tenon::Split units{2, {classes}, {classes}};
    const auto scores = g.value("scores", {"B", "T", classes}, TENON_CLASS_COMPUTE, units);
    const auto head = weight(g, "head.weight", {classes, kWidth}, rows);
    g.block("score", {x}, {scores}, {head}, [](const tenon::BlockCall& b) {
       return ops::linear(ops::tensor_in(b.input(0)), {b.parameter(0)});
     }).flags(TENON_BLOCK_DIVISIBLE | TENON_BLOCK_TOKENWISE);
    const auto y = g.value("y", {"B", "T", kWidth});
    g.block("echo",
            {x, scores},
            {y},
            {g.tied_parameter("echo.weight", "head.weight")},
            [](const tenon::BlockCall& b) {
              const at::Tensor part = at::matmul(at::tanh(b.input(1)), b.parameter(0));
              return b.input(0) + ops::tensor_out(part);
            })
        .flags(TENON_BLOCK_DIVISIBLE | TENON_BLOCK_TOKENWISE);
    // Reads whole scores, since it declares nothing.
    const auto z = g.value("z", {"B", "T", kWidth});
    g.block("mean", {y, scores}, {z}, {}, [](const tenon::BlockCall& b) {
       return b.input(0) + at::softmax(b.input(1), 2).narrow(2, 0, kWidth);
     }).flags(TENON_BLOCK_TOKENWISE);
    const auto logits = g.value("logits", {"B", "T", classes}, TENON_CLASS_COMPUTE, units);
    g.block("head",
            {z},
            {logits},
            {norm(g, "head.norm", {kWidth}), weight(g, "lm_head.weight", {classes, kWidth}, rows)},
            [](const tenon::BlockCall& b) {
              const at::Tensor in = ops::tensor_in(normed(b.input(0), b.parameter(0)));
              return ops::linear(in, {b.parameter(1)});
            })
        .flags(TENON_BLOCK_DIVISIBLE | TENON_BLOCK_TOKENWISE);
  }

  Options options_;
};

}  // namespace

TENON_PLUGIN(DividedLm)
