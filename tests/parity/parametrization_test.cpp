// SPDX-License-Identifier: Apache-2.0
//
// Adapters in a model, block by block as the host runs it: the product of an adapted weight against
// the effective weight, in results and gradients; and quantized bases against bitsandbytes
// (quantized_golden.py made the data).
#include "host/model/parametrized_graph.hpp"
#include "host/plugin/parametrization_proxy.hpp"
#include "host/tensor/exec_frame.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/op_service.hpp"
#include "host/tensor/tensor_service.hpp"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "tests/parity/largest_difference.hpp"
#include "tests/parity/model_rig.hpp"
#include "tests/plugins/made_component.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/safetensors.hpp"

namespace tenon {
namespace {

constexpr char kLlama[] = R"({"vocab_size": 50, "hidden_size": 48, "intermediate_size": 72,
    "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
    "max_position_embeddings": 64, "initializer_range": 0.2})";

enum class Form { kProduct, kEffective };

// Adapts every second matrix. For the effective form, the graph loses the flag by which the host
// may use products.
std::function<void(ModelGraph&)> adapting(const std::string& type,
                                          const std::string& options,
                                          Form form) {
  return [=](ModelGraph& graph) {
    const size_t num_parameters = graph.parameters.size();
    for (uint32_t p = 0; p < num_parameters; ++p) {
      if (p % 2 == 0 && graph.parameters[p].shape.size() == 2) {
        if (form == Form::kEffective) {
          graph.parameters[p].flags &= ~uint32_t{TENON_PARAM_LINEAR};
        }
        parametrize(graph, p, make_component("parametrization", type, options));
      }
    }
    REQUIRE(graph.parametrizations.size() > 4);
  };
}

// lora_b starts as zeros, which would hide most errors.
void disturb(ModelRig& rig) {
  for (const ModelParameter& parameter : rig.graph().parameters) {
    if (parameter.name.ends_with(".lora_b")) {
      const at::Tensor value = rig.parameter(parameter.name);
      rig.set_parameter(
          parameter.name,
          at::sin(at::arange(value.numel()).to(value.scalar_type())).view(value.sizes()) * 0.1);
    }
  }
}

}  // namespace

TEST_CASE("the product of an adapted weight is that of the effective weight", "[parity]") {
  const std::string type = GENERATE("lora", "rslora", "dora");
  const std::string base = GENERATE("full", "bf16", "int8", "nf4");
  const auto dtype = GENERATE(at::kFloat, at::kDouble);
  const auto recompute = GENERATE(RecomputeMode::kNone, RecomputeMode::kBlocks);
  CAPTURE(type, base, dtype == at::kDouble, recompute == RecomputeMode::kBlocks);
  const std::string options = R"({"rank": 5, "alpha": 7, "base": ")" + base + "\"}";
  ModelRig product("llama", kLlama, dtype, recompute, adapting(type, options, Form::kProduct));
  ModelRig whole("llama", kLlama, dtype, recompute, adapting(type, options, Form::kEffective));
  disturb(product);
  disturb(whole);
  const at::Tensor ids = (at::arange(2 * 17) * 7 % 50).view({2, 17});
  product.forward({{"input_ids", ids}});
  whole.forward({{"input_ids", ids}});
  const double most = dtype == at::kDouble ? 1e-9 : 1e-3;
  CHECK(largest_difference(product.output("logits"), whole.output("logits")) < most);

  const at::Tensor grad = at::cos(at::arange(2 * 17 * 50).to(dtype)).view({2, 17, 50});
  product.backward("logits", grad);
  whole.backward("logits", grad);
  size_t num_compared = 0;
  for (const ModelParameter& parameter : product.graph().parameters) {
    if ((parameter.flags & TENON_PARAM_FROZEN) != 0) {
      continue;
    }
    CAPTURE(parameter.name);
    const at::Tensor expected = whole.grad(parameter.name);
    const double scale = std::max(1.0, expected.abs().max().item<double>());
    CHECK(largest_difference(product.grad(parameter.name), expected) / scale < most);
    num_compared += parameter.name.find(".lora_") != std::string::npos ? 1 : 0;
  }
  CHECK(num_compared >= 10);
}

TEST_CASE("quantized bases are those of bitsandbytes", "[parity]") {
  const std::string kind = GENERATE("nf4", "int8");
  CAPTURE(kind);
  const GoldenData golden =
      read_safetensors(source_dir() / "tests" / "parity" / "quantized_golden.safetensors");
  const std::string name = "weight";
  const std::vector<int64_t> shape = golden.at("weight").sizes().vec();
  const ParametrizationProxy proxy(
      make_component("parametrization", "lora", R"({"rank": 2, "base": ")" + kind + "\"}"),
      EffectiveSpec{.name = name, .shape = shape});
  REQUIRE(proxy.reals().size() == 2);
  REQUIRE(proxy.buffers().size() == 2);
  std::vector<at::Tensor> reals;
  for (const RealSpec& real : proxy.reals()) {
    reals.push_back(at::zeros(real.shape));
  }
  std::vector<at::Tensor> buffers;
  for (const RealBufferSpec& buffer : proxy.buffers()) {
    buffers.push_back(
        at::zeros(buffer.shape, at::dtype(static_cast<at::ScalarType>(buffer.dtype))));
  }
  ExecBase base;
  base.tensors = tensor_service();
  base.ops = op_service();
  const ExecFrame frame(proxy.instance().host(), base);
  proxy.start(frame.exec(), golden.at("weight"), reals, buffers);
  CHECK(at::equal(buffers[0], golden.at(kind + "/codes")));
  CHECK(largest_difference(buffers[1], golden.at(kind + "/scales")) < 1e-9);
  const at::Tensor weight = proxy.effective(
      frame.exec(), {borrow(reals[0]), borrow(reals[1])}, {borrow(buffers[0]), borrow(buffers[1])});
  CHECK(largest_difference(weight, golden.at(kind + "/weight")) < 1e-6);
}

TEST_CASE("an adapted block reads no elements of a linear weight", "[parity]") {
  // A block that computes with the weight itself, against its flag.
  const auto misuse = [](ModelGraph& graph) {
    graph.parameters[0].flags |= TENON_PARAM_LINEAR;  // the embedding
    parametrize(graph, 0, make_component("parametrization", "lora", R"({"rank": 2})"));
  };
  ModelRig rig("llama", kLlama, at::kFloat, RecomputeMode::kNone, misuse);
  const at::Tensor ids = (at::arange(2 * 5) * 7 % 50).view({2, 5});
  CHECK_THROWS(rig.forward({{"input_ids", ids}}));
}

TEST_CASE("parameters of modules and of hand-written blocks cannot be adapted", "[parity]") {
  ModelGraph graph;
  graph.parameters.resize(2);
  graph.parameters[0].name = "a.weight";
  graph.parameters[0].shape = {4, 3};
  graph.parameters[0].dtype = TENON_CLASS_PARAM;
  graph.parameters[0].blocks = {0};
  graph.parameters[1] = graph.parameters[0];
  graph.parameters[1].name = "b.weight";
  graph.parameters[1].blocks = {1};
  graph.blocks.resize(2);
  graph.blocks[0].name = "made";
  graph.blocks[0].flags = TENON_BLOCK_MATERIALIZED;
  graph.blocks[0].parameters = {0};
  graph.blocks[1].name = "own";
  graph.blocks[1].flags = TENON_BLOCK_HAND_WRITTEN;
  graph.blocks[1].parameters = {1};
  CHECK(unparametrizable(graph, 0) ==
        "block 'made' makes it in a module, which keeps its own tensor");
  CHECK(unparametrizable(graph, 1) == "block 'own' has its own backward");
  graph.blocks[1].flags = 0;
  CHECK(unparametrizable(graph, 1).empty());
  parametrize(graph, 1, make_component("parametrization", "lora", R"({"rank": 2})"));
  CHECK(unparametrizable(graph, 1) == "another parametrization replaces it");
  REQUIRE(graph.parameters.size() == 4);
  CHECK(graph.parameters[2].name == "b.weight.lora_a");
  CHECK(graph.parameters[3].name == "b.weight.lora_b");
  CHECK(graph.blocks[1].declared_parameters().size() == 1);
  CHECK(graph.blocks[1].parameters == std::vector<uint32_t>{1, 2, 3});
  CHECK((graph.parameters[1].flags & TENON_PARAM_FROZEN) != 0);
}

}  // namespace tenon
