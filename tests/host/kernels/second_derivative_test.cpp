// SPDX-License-Identifier: Apache-2.0
//
// Second derivatives (create_graph). An operator either has them, or refuses them with an error;
// it never takes its gradient as a constant.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/host/kernels/kernel_rig.hpp"
#include "tests/host/kernels/operator_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

template <class... Arguments>
torch::jit::Stack call(const std::string& name, Arguments&&... arguments) {
  torch::jit::Stack stack{c10::IValue(std::forward<Arguments>(arguments))...};
  c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "").callBoxed(&stack);
  return stack;
}

struct Case {
  std::string op;
  Operator y;
  Tensors inputs;
};

// Each operator with an own backward, in the shapes for which it runs.
std::vector<Case> cases() {
  constexpr double kEps = 1e-6;
  const at::Tensor x = made(1, {3, 8});
  const at::Tensor w = made(2, {8});
  const at::Tensor angles = made(3, {5, 2});
  const at::Tensor table = at::stack({angles.cos(), angles.sin()}).to(at::kFloat);
  const at::Tensor ids = at::tensor({3, 0, 3, 1}, at::kLong);
  const auto first = [](torch::jit::Stack stack) { return stack[0].toTensor(); };
  return {
      {"rms_norm",
       [=](const Tensors& in) { return first(call("tenon::rms_norm", in[0], in[1], kEps)); },
       {x, w}},
      {"add_rms_norm",
       [=](const Tensors& in) {
         return call("tenon::add_rms_norm", in[0], in[1], in[2], kEps)[1].toTensor();
       },
       {x, made(4, {3, 8}), w}},
      {"layer_norm",
       [=](const Tensors& in) {
         return first(call("tenon::layer_norm", in[0], in[1], in[2], kEps));
       },
       {x, w, made(5, {8})}},
      {"rope",
       [=](const Tensors& in) { return first(call("tenon::rope", in[0], table, c10::IValue())); },
       {made(6, {2, 5, 3, 4})}},
      {"gated_mlp",
       [=](const Tensors& in) {
         return first(call("tenon::gated_mlp", in[0], in[1], in[2], in[3], "silu"));
       },
       {x, made(7, {6, 8}), made(8, {6, 8}), made(9, {8, 6})}},
      {"embedding",
       [=](const Tensors& in) { return first(call("tenon::embedding", in[0], ids)); },
       {made(10, {5, 4})}},
      {"attention",
       [=](const Tensors& in) {
         return first(call("tenon::attention",
                           in[0],
                           in[1],
                           in[2],
                           c10::IValue(),
                           c10::IValue(),
                           0,
                           0.0,
                           c10::IValue(),
                           0.0,
                           true,
                           c10::IValue()));
       },
       {made(11, {2, 5, 4, 4}), made(12, {2, 5, 2, 4}), made(13, {2, 5, 2, 4})}},
      {"packed_attention",
       [=](const Tensors& in) {
         return first(call("tenon::packed_attention",
                           in[0],
                           4,
                           2,
                           c10::IValue(),
                           c10::IValue(),
                           0,
                           0.0,
                           c10::IValue(),
                           0.0,
                           true,
                           c10::IValue()));
       },
       {made(14, {2, 5, 32})}},
      {"cross_entropy",
       [=](const Tensors& in) {
         return first(
             call("tenon::cross_entropy", in[0], in[1], ids, c10::IValue(), -100, 0.0, 0.0));
       },
       {made(15, {4, 8}), made(16, {6, 8})}},
      {"cross_entropy",  // token_logps is its negative
       [=](const Tensors& in) {
         return first(call("tenon::token_logps", in[0], in[1], ids, c10::IValue(), -100, 1.0));
       },
       {made(17, {4, 8}), made(18, {6, 8})}}};
}

// The gradients of sum(y^2), then those of the squares of all these gradients.
Tensors second_derivatives(const Operator& op, const Tensors& inputs, at::ScalarType dtype) {
  register_operators();
  const at::AutoGradMode record(true);
  const Tensors leaves = leaves_of(inputs, dtype);
  const Tensors first = torch::autograd::grad({op(leaves).square().sum()},
                                              leaves,
                                              {},
                                              /*retain_graph=*/true,
                                              /*create_graph=*/true);
  at::Tensor squares = at::zeros({}, at::dtype(dtype));
  for (const at::Tensor& grad : first) {
    squares = squares + grad.square().sum();
  }
  return torch::autograd::grad({squares}, leaves);
}

}  // namespace

TEST_CASE("an operator whose gradient has no gradient refuses a second derivative", "[kernels]") {
  for (const Case& one : cases()) {
    CAPTURE(one.op);
    CHECK_THAT(message_of([&] { second_derivatives(one.y, one.inputs, at::kFloat); }),
               contains_text("tenon::" + one.op + ": its gradient has no gradient"));
    // The first derivative is there, without create_graph.
    CHECK(run(one.y, one.inputs, at::kFloat).size() == one.inputs.size() + 1);
  }
}

// The page of operators says which have second derivatives with plain kernels. In fp64 all are.
TEST_CASE("plain kernels have second derivatives or refuse them", "[kernels]") {
  for (const Case& one : cases()) {
    CAPTURE(one.op);
    const auto derive = [&] {
      const PolicyScope plain(all_kernels("plain"));
      return second_derivatives(one.y, one.inputs, at::kFloat);
    };
    if (one.op == "cross_entropy") {
      CHECK_THAT(message_of(derive), contains_text("its gradient has no gradient"));
    } else if (one.op == "attention" || one.op == "packed_attention") {
      CHECK_THAT(message_of(derive), contains_text("is not implemented"));
    } else {
      check_near(derive(), second_derivatives(one.y, one.inputs, at::kDouble), 1e-4);
    }
  }
}

TEST_CASE("a linear layer has second derivatives with every kernel", "[kernels]") {
  const std::string kernel =
      GENERATE("auto", "plain", "mkl", "onednn", "onednn_transposed", "tenon");
  CAPTURE(kernel);
  const PolicyScope use(forced_kernel("linear", kernel));
  // Two weights and a bias; large enough for a choice.
  const Tensors inputs = {
      made(1, {128, 128}), made(2, {64, 128}), made(3, {64, 128}), made(4, {128})};
  const Operator layer = [](const Tensors& in) {
    return call("tenon::linear", in[0], c10::List<at::Tensor>({in[1], in[2]}), in[3], "tanh")[0]
        .toTensor();
  };
  const Operator by_formula = [](const Tensors& in) {
    return at::tanh(at::linear(in[0], at::cat({in[1], in[2]}), in[3]));
  };
  check_near(second_derivatives(layer, inputs, at::kFloat),
             second_derivatives(by_formula, inputs, at::kDouble),
             1e-5);
}

}  // namespace tenon
