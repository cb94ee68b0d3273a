// SPDX-License-Identifier: Apache-2.0
//
// A language model whose blocks are flagged TENON_BLOCK_CONTEXT. With a fault, one of them cannot
// run on a part of the positions; without, all can.
#include <tenon/cpp/model.hpp>
#include <tenon/cpp/op.hpp>
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/tensor.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int64_t kVocabulary = 16;
constexpr int64_t kWidth = 4;
constexpr int64_t kHeads = 2;
constexpr int64_t kPositions = 64;

class ContextFaults final : public tenon::Model {
 public:
  static constexpr const char* kType = "context_faults";
  static constexpr const char* kSummary = "for tests: blocks that may be flagged by mistake";
  struct Options {
    std::string fault;
  };
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("fault", &Options::fault).doc("why a block cannot run on a part; \"\": it can");
  }

  explicit ContextFaults(const Options& options) : fault_(options.fault) {}

  void on_describe(tenon::Graph& g) override {
    const tenon::Init init = tenon::Init::normal(0, 0.5);
    const auto ids = g.input("input_ids", {"B", "T"}, TENON_I64);
    const auto positions = g.optional_input("position_ids", {"B", "T"}, TENON_I64);
    const auto x = g.value("x", {"B", "T", kWidth});
    const auto y = g.value("y", {"B", "T", kWidth});
    const auto tokens = g.parameter("tokens", {kVocabulary, kWidth}, init);
    const auto places = g.parameter("places", {kPositions, kWidth}, init);
    const auto joined = g.parameter("joined", {3 * kWidth, kWidth}, init);
    const auto scale = g.parameter("scale", {kWidth}, init);
    const auto seen = g.buffer("seen", {}, TENON_I64, TENON_BUFFER_STATE);
    const uint32_t flags = TENON_BLOCK_CONTEXT;
    std::vector<tenon::ValueId> results = {y};
    if (fault_ == "pooled") {
      results.push_back(g.value("pooled", {"B", kWidth}));
    }
    g.add_block({"embed", {ids, positions}, {x}, {tokens, places}, {}, flags});
    g.add_block({"attend", {x}, results, {joined, scale}, {seen}, flags});
    const auto head = g.parameter("head", {kVocabulary, kWidth}, init);
    const auto logits = g.value("logits", {"B", "T", kVocabulary});
    g.add_block({"head", {y}, {logits}, {head}, {}, TENON_BLOCK_TOKENWISE});
  }

  void on_fill_buffer(const tenon::Exec&, const tenon_fill_buffer_args&) override {}  // 0

  void on_forward(const tenon::Exec& exec, tenon_forward_args& args) override {
    const Call call{exec.host(), args};
    if (args.block == 0) {
      args.outputs_own[0] = embed(call).release();
    } else if (args.block == 1) {
      attend(call);
    } else {
      args.outputs_own[0] =
          call.op("aten::linear", {call.input(0), call.parameter(0), nullptr}).release();
    }
  }

 private:
  struct Call {
    const tenon::Host& host;
    tenon_forward_args& args;

    tenon::TensorRef input(size_t i) const { return {host, args.inputs[i]}; }
    tenon::TensorRef parameter(size_t i) const { return {host, args.parameters[i]}; }
    tenon::Tensor op(const char* name, std::initializer_list<tenon::Arg> arguments) const {
      return tenon::call_op(host, name, arguments);
    }
  };

  tenon::Tensor embed(const Call& call) const {
    const auto rows = [&call](size_t table, const tenon::TensorRef& ids) {
      return call.op("tenon::embedding", {call.parameter(table), ids});
    };
    const tenon::Tensor tokens = rows(0, call.input(0));
    if (call.args.inputs[1] != nullptr && fault_ != "positions") {
      return call.op("aten::add.Tensor", {tokens, rows(1, call.input(1)), 1});
    }
    const tenon::Tensor counted =
        call.op("aten::arange", {call.input(0).size(1), tenon::Arg::dtype(TENON_I64)});
    return call.op("aten::add.Tensor", {tokens, rows(1, counted.ref()), 1});
  }

  void attend(const Call& call) const {
    const tenon::TensorRef x = call.input(0);
    tenon::Tensor y = mixed(call, x);
    if (fault_ == "gradient" || fault_ == "parameter") {
      // Adds 0, whose gradient depends on other positions, or on the number of positions.
      const tenon::Tensor more =
          fault_ == "gradient"
              ? call.op("aten::mean.dim", {x, std::vector<int64_t>{1}, true})
              : call.op("aten::mul.Scalar", {call.parameter(1), static_cast<double>(x.size(1))});
      const tenon::Tensor zero =
          call.op("aten::sub.Tensor", {more, call.op("aten::detach", {more}), 1});
      y = call.op("aten::add.Tensor", {y, zero, 1});
    }
    if (fault_ == "buffer") {
      const tenon::TensorRef seen(call.host, call.args.buffers[0]);
      call.args.next_buffers_own[0] = call.op("aten::add.Scalar", {seen, x.size(1), 1}).release();
    }
    if (fault_ == "pooled") {
      call.args.outputs_own[1] = call.op("aten::mean.dim", {y, std::vector<int64_t>{1}}).release();
    }
    add_loss(call, y);
    call.args.outputs_own[0] = y.release();
  }

  // The squares of a token, over the tokens of all samples.
  void add_loss(const Call& call, const tenon::Tensor& y) const {
    const tenon::Tensor squares = call.op("aten::mul.Tensor", {y, y});
    const tenon::Tensor sum = call.op(fault_ == "loss" ? "aten::mean" : "aten::sum", {squares});
    const auto count = static_cast<double>(y.ref().size(0) * y.ref().size(1));
    const tenon::Tensor zero = call.op("aten::zeros_like", {sum});
    const tenon::Tensor tokens =
        call.op("aten::add.Scalar", {zero, fault_ == "loss" ? 1.0 : count, 1});
    call.host.check(
        call.args.add_loss(&call.args, "squares", sum.ref().handle(), tokens.ref().handle(), 0.1));
  }

  tenon::Tensor mixed(const Call& call, const tenon::TensorRef& x) const {
    if (fault_ == "mean") {
      return call.op("aten::sub.Tensor",
                     {x, call.op("aten::mean.dim", {x, std::vector<int64_t>{1}, true}), 1});
    }
    if (fault_ == "sum") {
      return call.op("aten::cumsum", {x, 1});
    }
    if (fault_ == "by_hand") {
      const tenon::Tensor scores =
          call.op("aten::matmul", {x, call.op("aten::transpose.int", {x, 1, 2})});
      return call.op("aten::matmul", {call.op("aten::softmax.int", {scores, -1}), x});
    }
    if (fault_ == "refuse" && x.size(1) == 0) {
      TENON_FAIL(TENON_INVALID, "context_faults.empty", "there are no positions");
    }
    if (fault_ == "skip" && x.size(1) == 0) {
      return call.op("aten::clone", {x});
    }
    const tenon::Tensor qkv = call.op("aten::linear", {x, call.parameter(0), nullptr});
    if (fault_ == "half") {  // keys and values of the first half of the positions
      return half_seen(call, qkv);
    }
    return call.op("tenon::packed_attention", {qkv, kHeads, kHeads});
  }

  tenon::Tensor half_seen(const Call& call, const tenon::Tensor& qkv) const {
    const int64_t length = qkv.ref().size(1);
    const auto part = [&](int64_t number, int64_t end) {
      const tenon::Tensor of = call.op("aten::narrow", {qkv, 2, number * kWidth, kWidth});
      return call.op("aten::unflatten.int",
                     {call.op("aten::narrow", {of, 1, 0, end}),
                      2,
                      std::vector<int64_t>{kHeads, kWidth / kHeads}});
    };
    const int64_t half = (length + 1) / 2;
    const tenon::Tensor seen = call.op("tenon::attention",
                                       {part(0, length),
                                        part(1, half),
                                        part(2, half),
                                        nullptr,
                                        nullptr,
                                        0,
                                        0.0,
                                        nullptr,
                                        0.0,
                                        false});
    return call.op("aten::flatten.using_ints", {seen, 2});
  }

  std::string fault_;
};

}  // namespace

TENON_PLUGIN(ContextFaults)
