// SPDX-License-Identifier: Apache-2.0
//
// A model of two blocks: `hidden` = tanh(x w1^T), with a backward of its own, and `logits` =
// hidden w2^T by autograd.
#pragma once

#include <tenon/cpp/generation.hpp>
#include <tenon/cpp/model.hpp>
#include <tenon/cpp/op.hpp>
#include <tenon/cpp/tensor.hpp>
#include <tenon/draft/tensor.h>

#include <atomic>
#include <cstring>
#include <string>

#include "tests/faults/zoo/breaks_rules/fault.hpp"

namespace {

class RuleModel final : public tenon::Model, public tenon::Generation {
 public:
  static constexpr const char* kType = "rule_model";
  static constexpr const char* kSummary = "for tests: a model that may break a rule";
  using Options = FaultOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { bind_fault(binder); }

  explicit RuleModel(const Options& options) : fault_(options.fault) {}

  void on_describe(tenon::Graph& graph) override {
    static std::atomic<int> num_instances = 0;
    const auto x = graph.input("x", {"B", 4}, TENON_CLASS_COMPUTE);
    const std::string name = fault_ == "graph" ? std::to_string(++num_instances) : "";
    const auto hidden = graph.value("hidden" + name, {"B", 5});
    const auto logits = graph.value("logits", {"B", 3});
    const auto w1 = graph.parameter("w1", {5, 4}, tenon::Init::normal(0, 0.5));
    const bool is_split = fault_ == "tensor";  // without the operators of a divided region
    const auto w2 = graph.parameter("w2",
                                    {3, 5},
                                    tenon::Init::normal(0, 0.5),
                                    0,
                                    is_split ? tenon::Split{0, {3}, {3}} : tenon::Split{});
    graph.add_block({"first", {x}, {hidden}, {w1}, {}, TENON_BLOCK_HAND_WRITTEN});
    graph.add_block({"second", {hidden}, {logits}, {w2}, {}, is_split ? TENON_BLOCK_DIVISIBLE : 0});
    if (fault_ == "generation") {
      const auto ids = graph.input("ids", {"B", "T"}, TENON_I64);
      const auto table = graph.parameter("table", {64, 3}, tenon::Init::normal(0, 0.5));
      graph.add_block({"scores",
                       {ids},
                       {graph.value("scores", {"B", "T", 3})},
                       {table},
                       {},
                       TENON_BLOCK_TOKENWISE});
    }
    if (fault_ == "tokenwise" || fault_ == "context") {
      const uint32_t flags =
          fault_ == "context" ? TENON_BLOCK_CONTEXT : uint32_t{TENON_BLOCK_TOKENWISE};
      const auto positions = graph.input("positions", {"B", "T"}, TENON_CLASS_COMPUTE, "x");
      graph.add_block({"sums", {positions}, {graph.value("sums", {"B", "T"})}, {}, {}, flags});
    }
  }

  const void* extension(const char* id) override {
    return fault_ == "generation" ? tenon::GenerationCalls<RuleModel>::find(id) : nullptr;
  }
  tenon::GenerationInfo describe_generation() override { return {"ids", "scores", 64, {}}; }
  // Twice what the forward gives.
  void on_step(const tenon::Exec& exec, tenon_generation_args& args) override {
    const tenon::Host& host = exec.host();
    const tenon::TensorRef ids(host, args.inputs[0]);
    const tenon::TensorRef table(host, args.parameters[0]);
    args.outputs_own[0] =
        tenon::call_op(host, "aten::mul.Scalar", {rows_of(host, table, ids), 2.0}).release();
  }

  void on_forward(const tenon::Exec& exec, tenon_forward_args& args) override {
    const tenon::Host& host = exec.host();
    const tenon::TensorRef input(host, args.inputs[0]);
    if (args.block == 2 && fault_ == "generation") {
      const tenon::TensorRef table(host, args.parameters[0]);
      args.outputs_own[0] = rows_of(host, table, input).release();
      return;
    }
    if (args.block == 2) {
      args.outputs_own[0] = tenon::call_op(host, "aten::cumsum", {input, 1}).release();
      return;
    }
    const tenon::TensorRef weight(host, args.parameters[0]);
    if (fault_ == "batch_sizes" && input.size(0) != 4) {
      TENON_FAIL(TENON_INVALID, "rules.size", "the batch has ", input.size(0), " samples, not 4");
    }
    tenon::Tensor out;
    if (args.block == 0) {
      out = first(host, exec, input, weight);
      host.check(args.save(&args, args.inputs[0]));
      host.check(args.save(&args, out.ref().handle()));
    } else {
      out = tenon::call_op(host, "aten::linear", {input, weight, nullptr});
    }
    if (fault_ == "reads_only" && args.block == 0 && !exec.is_train()) {
      tenon::call_op(host, "aten::zero_", {input});
    }
    if (fault_ == "recompute" && exec.is_recompute()) {
      out = tenon::call_op(host, "aten::add.Scalar", {out, 1.0, 1.0});
    }
    if (fault_ == "results" && args.block == 1) {
      out = tenon::call_op(host, "aten::t", {out});
    }
    args.outputs_own[0] = out.release();
  }

  void on_backward(const tenon::Exec& exec, const tenon_backward_args& args) override {
    const tenon::Host& host = exec.host();
    const tenon::TensorRef x(host, args.saved[0]);
    const tenon::TensorRef hidden(host, args.saved[1]);
    const tenon::TensorRef grad(host, args.grad_outputs[0]);
    const auto inner = tenon::call_op(host, "aten::tanh_backward", {grad, hidden});
    auto by_weight =
        tenon::call_op(host, "aten::mm", {tenon::call_op(host, "aten::t", {inner}), x});
    if (fault_ == "gradients") {
      by_weight = tenon::call_op(host, "aten::mul.Scalar", {by_weight, 0.5});
    }
    args.grad_parameters_own[0] = by_weight.release();
  }

 private:
  static tenon::Tensor rows_of(const tenon::Host& host,
                               const tenon::TensorRef& table,
                               const tenon::TensorRef& ids) {
    return tenon::call_op(host, "aten::embedding", {table, ids, -1, false, false});
  }

  tenon::Tensor first(const tenon::Host& host,
                      const tenon::Exec& exec,
                      const tenon::TensorRef& input,
                      const tenon::TensorRef& weight) {
    tenon::Tensor made;
    if (fault_ == "views" && input.dtype() == TENON_F64) {
      made = tenon::call_op(host, "aten::linear", {in_memory_order(host, input), weight, nullptr});
    } else {
      made = tenon::call_op(host, "aten::linear", {input, weight, nullptr});
    }
    if (fault_ == "fp64" && input.dtype() == TENON_F64 && !exec.is_train()) {
      made = tenon::call_op(host, "aten::mul.Scalar", {made, 1.5});
    }
    return tenon::call_op(host, "aten::tanh", {made});
  }

  // Takes the elements one after the other, whatever the strides.
  static tenon::Tensor in_memory_order(const tenon::Host& host, const tenon::TensorRef& input) {
    tenon_tensor_info info{};
    info.struct_size = sizeof info;
    host.check(host.tensors().info(input.handle(), &info));
    tenon::Tensor packed =
        tenon::Tensor::empty(host, TENON_F64, {TENON_CPU, 0}, {input.size(0), input.size(1)});
    std::memcpy(packed.ref().mutable_data<double>(),
                info.data,
                static_cast<size_t>(info.numel) * sizeof(double));
    return packed;
  }

  std::string fault_;
};

}  // namespace
