// SPDX-License-Identifier: Apache-2.0
//
// The decoder in C of docs/plugin-guide/operators-in-c.md, run as the host does it, against the
// llama plugin and against libtorch's operators in fp64.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/host/kernels/kernel_rig.hpp"
#include "tests/parity/model_rig.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

constexpr char kLlama[] =
    R"({"vocab_size": 256, "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 1,
        "num_attention_heads": 4, "max_position_embeddings": 512})";
constexpr int64_t kHeads = 4;
constexpr double kEpsilon = 1e-6;

at::Tensor some_ids(int64_t num_samples, int64_t num_positions) {
  return (at::arange(num_samples * num_positions) * 37 % 256).view({num_samples, num_positions});
}

// Larger than the first values, so that attention is not almost uniform.
void set_parameters(ModelRig& rig) {
  uint64_t seed = 0;
  for (const ModelParameter& parameter : rig.graph().parameters) {
    const at::Tensor before = rig.parameter(parameter.name);
    const at::Tensor value = 0.1 * made(++seed, before.sizes().vec());
    rig.set_parameter(parameter.name, before.dim() == 1 ? 1.0 + value : value);
  }
}

// Logits, then the gradients by parameters, in the order of the model.
std::vector<at::Tensor> run(ModelRig& rig, const at::Tensor& ids, const at::Tensor& grad) {
  rig.forward({{"input_ids", ids}});
  std::vector<at::Tensor> out = {rig.output("logits").detach().clone()};
  rig.backward("logits", grad.to(out[0].scalar_type()));
  for (const ModelParameter& parameter : rig.graph().parameters) {
    out.push_back(rig.grad(parameter.name).clone());
  }
  return out;
}

at::Tensor norm(const at::Tensor& x, const at::Tensor& weight) {
  return x * at::rsqrt(x.square().mean(-1, /*keepdim=*/true) + kEpsilon) * weight;
}

// x [B, T, H, E]; angles [T, E/2].
at::Tensor rotated(const at::Tensor& x, const at::Tensor& angles) {
  const at::Tensor cos = angles.cos().unsqueeze(1);
  const at::Tensor sin = angles.sin().unsqueeze(1);
  const std::vector<at::Tensor> half = x.chunk(2, -1);
  return at::cat({half[0] * cos - half[1] * sin, half[1] * cos + half[0] * sin}, -1);
}

// The same by libtorch's operators, with weights in the order of the model.
at::Tensor by_formula(const at::Tensor& ids, const std::vector<at::Tensor>& w) {
  const int64_t T = ids.size(1);
  const int64_t half = w[2].size(0) / kHeads / 2;
  const at::Tensor frequencies =
      at::pow(10000.0, -at::arange(half, at::dtype(at::kDouble)) / static_cast<double>(half));
  const at::Tensor angles = at::outer(at::arange(T, at::dtype(at::kDouble)), frequencies);
  const auto heads = [&](const at::Tensor& y) { return y.unflatten(2, {kHeads, 2 * half}); };
  const at::Tensor x = at::embedding(w[0], ids);
  const at::Tensor in = norm(x, w[1]);
  const at::Tensor q = rotated(heads(at::linear(in, w[2])), angles).transpose(1, 2);
  const at::Tensor k = rotated(heads(at::linear(in, w[3])), angles).transpose(1, 2);
  const at::Tensor v = heads(at::linear(in, w[4])).transpose(1, 2);
  const at::Tensor scores = at::matmul(q, k.transpose(2, 3)) / std::sqrt(2.0 * half);
  const at::Tensor later = at::ones({T, T}, at::kBool).triu(1);
  const at::Tensor seen = at::matmul(scores.masked_fill(later, -1e300).softmax(-1), v);
  const at::Tensor h = x + at::linear(seen.transpose(1, 2).flatten(2), w[5]);
  const at::Tensor in_2 = norm(h, w[6]);
  const at::Tensor fed =
      at::linear(at::silu(at::linear(in_2, w[7])) * at::linear(in_2, w[8]), w[9]);
  return at::linear(norm(h + fed, w[10]), w[11]);
}

}  // namespace

TEST_CASE("a decoder in C has the logits and gradients of its formula", "[parity]") {
  const int64_t num_positions = GENERATE(1, 33, 200);
  const auto choice = kernel_choices()[GENERATE(range<size_t>(0, kernel_choices().size()))];
  CAPTURE(num_positions, choice.first, choice.second);
  const PolicyScope use(policy_of(choice));
  ModelRig rig("c_decoder", "{}");
  set_parameters(rig);
  const at::Tensor ids = some_ids(2, num_positions);
  const at::Tensor grad = made(99, {2, num_positions, 256});
  const std::vector<at::Tensor> found = run(rig, ids, grad);

  const at::AutoGradMode record(true);
  std::vector<at::Tensor> w;
  for (const ModelParameter& parameter : rig.graph().parameters) {
    w.push_back(rig.parameter(parameter.name).to(at::kDouble).requires_grad_(true));
  }
  const at::Tensor logits = by_formula(ids, w);
  std::vector<at::Tensor> expected = torch::autograd::grad({logits}, w, {grad});
  expected.insert(expected.begin(), logits.detach());
  double squares = 0;
  for (size_t i = 1; i < expected.size(); ++i) {
    squares += expected[i].square().sum().item<double>();
  }
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    // A gradient that is zero in exact arithmetic has rounding errors only.
    const double scale = expected[i].norm().item<double>() + 0.01 * std::sqrt(squares);
    CHECK((found[i].to(at::kDouble) - expected[i]).norm().item<double>() / scale < 1e-5);
  }
}

TEST_CASE("a decoder in C has llama's logits and gradients, to the bit", "[parity]") {
  const auto choice = kernel_choices()[GENERATE(range<size_t>(0, kernel_choices().size()))];
  CAPTURE(choice.first, choice.second);
  const PolicyScope use(policy_of(choice));
  ModelRig rig("c_decoder", "{}");
  ModelRig llama("llama", kLlama);
  set_parameters(rig);
  std::map<std::string, size_t> index;  // by name, in what `run` returns
  for (const ModelParameter& parameter : rig.graph().parameters) {
    llama.set_parameter(parameter.name, rig.parameter(parameter.name));
    index.emplace(parameter.name, index.size() + 1);
  }
  // Angles differ in their last bits: llama computes them in fp32.
  CHECK(at::allclose(rig.buffer("rotary"), llama.buffer("rotary"), 0.0, 1e-4));
  rig.buffer("rotary").copy_(llama.buffer("rotary"));
  const at::Tensor ids = some_ids(4, 128);
  const at::Tensor grad = made(99, {4, 128, 256});
  const std::vector<at::Tensor> found = run(rig, ids, grad);
  const std::vector<at::Tensor> expected = run(llama, ids, grad);
  REQUIRE(found.size() == expected.size());
  CHECK(at::equal(found[0], expected[0]));
  size_t i = 0;
  for (const ModelParameter& parameter : llama.graph().parameters) {
    CAPTURE(parameter.name);
    CHECK(at::equal(found[index.at(parameter.name)], expected[++i]));
  }
}

}  // namespace tenon
