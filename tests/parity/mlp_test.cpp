// SPDX-License-Identifier: Apache-2.0
//
// Models of torch::nn modules, run block by block as the host does it, against the same modules run
// in one graph.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <vector>

#include "tests/parity/model_rig.hpp"
#include "tests/plugins/made_component.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

at::Tensor leaf(const at::Tensor& value) {
  return value.detach().clone().requires_grad_(true);
}

}  // namespace

TEST_CASE("mlp is what its layers are, in value and gradient", "[parity]") {
  const auto recompute = GENERATE(RecomputeMode::kNone, RecomputeMode::kBlocks);
  ModelRig rig("mlp",
               R"({"in_features": 5, "hidden": [7, 6], "out_features": 3, "activation": "gelu"})",
               at::kDouble,
               recompute);
  const std::vector<std::string> names = {
      "mlp.0.weight", "mlp.0.bias", "mlp.2.weight", "mlp.2.bias", "mlp.4.weight", "mlp.4.bias"};
  REQUIRE(rig.graph().parameters.size() == names.size());
  std::vector<at::Tensor> w;
  for (size_t i = 0; i < names.size(); ++i) {
    CHECK(rig.graph().parameters[i].name == names[i]);
    CHECK(((rig.graph().parameters[i].flags & TENON_PARAM_NO_DECAY) != 0) == (i % 2 == 1));
    w.push_back(leaf(rig.parameter(names[i])));
  }
  CHECK(w[0].abs().max().item<double>() > 0);
  const at::Tensor x = at::sin(at::arange(20).to(at::kDouble)).view({4, 5});
  const at::AutoGradMode record(true);
  const at::Tensor y =
      at::linear(at::gelu(at::linear(at::gelu(at::linear(x, w[0], w[1])), w[2], w[3])), w[4], w[5]);

  rig.forward({{"x", x}});
  CHECK(at::allclose(rig.output("logits"), y, 1e-12, 1e-12));
  rig.backward("logits", at::ones_like(y));
  const auto grads = torch::autograd::grad({y.sum()}, w);
  for (size_t i = 0; i < names.size(); ++i) {
    CAPTURE(names[i]);
    CHECK(at::allclose(rig.grad(names[i]), grads[i], 1e-12, 1e-12));
  }
}

TEST_CASE("mlp drops in training alone, and starts from the same values each time", "[parity]") {
  const std::string options =
      R"({"input": "features", "in_features": 5, "out_features": 3, "dropout": 0.5, "bias": false})";
  ModelRig rig("mlp", options);
  ModelRig again("mlp", options);
  const at::Tensor x = at::ones({4, 5});
  for (const ModelParameter& parameter : rig.graph().parameters) {
    CHECK(at::equal(rig.parameter(parameter.name), again.parameter(parameter.name)));
  }
  rig.forward({{"features", x}}, {1, 0, false});
  const at::Tensor evaluated = rig.output("logits").clone();
  rig.forward({{"features", x}}, {1, 0, true});
  CHECK_FALSE(at::allclose(evaluated, rig.output("logits")));
  rig.forward({{"features", x}}, {1, 0, false});
  CHECK(at::equal(evaluated, rig.output("logits")));
}

TEST_CASE("a module's running statistics are state of the run", "[parity]") {
  const auto recompute = GENERATE(RecomputeMode::kNone, RecomputeMode::kBlocks);
  const auto dtype = GENERATE(at::kFloat, at::kDouble);
  ModelRig rig("batch_norm_net", "{}", dtype, recompute);
  at::Tensor mean = at::zeros({4}, dtype);
  at::Tensor variance = at::ones({4}, dtype);
  const at::Tensor weight = leaf(rig.parameter("body.norm.weight"));
  const at::Tensor bias = leaf(rig.parameter("body.norm.bias"));
  for (int64_t step = 1; step <= 3; ++step) {
    const at::Tensor x = at::sin(at::arange(24).to(dtype) * static_cast<double>(step)).view({6, 4});
    at::Tensor expected;
    at::Tensor grad;
    {
      const at::AutoGradMode record(true);
      expected = at::batch_norm(x, weight, bias, mean, variance, true, 0.1, 1e-5, false);
      grad = torch::autograd::grad({expected.pow(2).sum()}, {weight})[0];
    }
    rig.forward({{"x", x}}, {static_cast<uint64_t>(step), 0, true});
    CHECK(at::allclose(rig.output("y"), expected, 1e-5, 1e-6));
    rig.backward("y", rig.output("y") * 2);
    CHECK(at::allclose(rig.grad("body.norm.weight"), grad, 1e-4, 1e-5));
    CHECK(at::allclose(rig.buffer("body.norm.running_mean"), mean, 1e-5, 1e-6));
    CHECK(at::allclose(rig.buffer("body.norm.running_var"), variance, 1e-5, 1e-6));
    CHECK(rig.buffer("body.norm.num_batches_tracked").item<int64_t>() == step);
  }
  const at::Tensor x = at::cos(at::arange(8).to(dtype)).view({2, 4});
  rig.forward({{"x", x}}, {4, 0, false});
  CHECK(at::allclose(rig.output("y"),
                     at::batch_norm(x, weight, bias, mean, variance, false, 0.1, 1e-5, false),
                     1e-5,
                     1e-5));
  CHECK(rig.buffer("body.norm.num_batches_tracked").item<int64_t>() == 3);
}

TEST_CASE("a hand-written block gives what autograd would", "[parity]") {
  ModelRig rig("hand_written", "{}", at::kDouble);
  const at::Tensor x = at::sin(at::arange(12).to(at::kDouble)).view({4, 3});
  const at::Tensor w1 = leaf(rig.parameter("first.weight"));
  const at::Tensor w2 = leaf(rig.parameter("second.weight"));
  const at::AutoGradMode record(true);
  const at::Tensor y = at::linear(at::tanh(at::linear(x, w1)), w2);
  rig.forward({{"x", x}});
  CHECK(at::allclose(rig.output("y"), y, 1e-12, 1e-12));
  rig.backward("y", at::ones_like(y));
  const auto grads = torch::autograd::grad({y.sum()}, {w1, w2});
  CHECK(at::allclose(rig.grad("first.weight"), grads[0], 1e-12, 1e-12));
  CHECK(at::allclose(rig.grad("second.weight"), grads[1], 1e-12, 1e-12));
  CHECK(rig.buffer("steps").item<double>() == 1.0);
}

}  // namespace tenon
