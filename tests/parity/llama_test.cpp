// SPDX-License-Identifier: Apache-2.0
//
// The llama plugin, run block by block as the host does it, against transformers' LlamaForCausalLM
// (llama_golden.py made the data), and its kernels for fp32 on a CPU against libtorch's operators
// in fp64.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/host/kernels/kernel_rig.hpp"
#include "tests/parity/model_rig.hpp"
#include "tests/plugins/made_component.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/safetensors.hpp"

namespace tenon {
namespace {

constexpr int64_t kIgnored = -100;

// The summed cross-entropy's gradient by the logits.
at::Tensor logits_grad(const at::Tensor& logits, const at::Tensor& labels, at::Tensor* loss_sum) {
  const at::AutoGradMode record(true);
  const at::Tensor x = logits.detach().requires_grad_(true);
  const at::Tensor sum =
      at::cross_entropy_loss(x.flatten(0, 1), labels.flatten(), {}, at::Reduction::Sum, kIgnored);
  *loss_sum = sum.detach();
  return torch::autograd::grad({sum}, {x})[0];
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

// Compares each gradient with the reference's, in the 2-norm. A gradient that is zero in exact
// arithmetic (queries and keys at one position) holds rounding errors only, and how large they are
// depends on the machine's math library. So differences are measured relative to the gradient or to
// a hundredth of all of them, whichever is larger.
void check_gradients_agree(ModelRig& rig, ModelRig& reference) {
  double squares = 0;
  for (const ModelParameter& parameter : reference.graph().parameters) {
    const double norm = reference.grad(parameter.name).norm().item<double>();
    squares += norm * norm;
  }
  const double floor = 0.01 * std::sqrt(squares);
  REQUIRE(floor > 0);
  for (const ModelParameter& parameter : reference.graph().parameters) {
    CAPTURE(parameter.name);
    const at::Tensor expected = reference.grad(parameter.name).to(at::kDouble);
    const at::Tensor found = rig.grad(parameter.name).to(at::kDouble);
    const double scale = std::max(expected.norm().item<double>(), floor);
    CHECK((found - expected).norm().item<double>() / scale < 1e-5);
  }
}

std::string small_options(int64_t kv_heads, double dropout = 0.0) {
  return R"({"vocab_size": 50, "hidden_size": 48, "intermediate_size": 72, "num_hidden_layers": 2,
             "num_attention_heads": 6, "max_position_embeddings": 300, "initializer_range": 0.2,
             "num_key_value_heads": )" +
         std::to_string(kv_heads) + R"(, "dropout": )" + std::to_string(dropout) + "}";
}

}  // namespace

TEST_CASE("llama gives the logits, loss and gradients of transformers in fp32", "[parity]") {
  const std::string name = GENERATE(
      "llama_gqa", "llama_mha_tied", "llama_rope_llama3", "llama_rope_linear", "llama_long");
  const std::string kernels = GENERATE("plain", "auto");
  const auto recompute = GENERATE(RecomputeMode::kNone, RecomputeMode::kBlocks);
  const auto dtype = GENERATE(at::kFloat, at::kDouble);
  CAPTURE(name, kernels, recompute == RecomputeMode::kBlocks, dtype == at::kDouble);
  const GoldenData golden =
      read_safetensors(source_dir() / "tests" / "parity" / (name + ".safetensors"));
  const PolicyScope use(all_kernels(kernels));
  ModelRig rig("llama", golden.metadata.at("options"), dtype, recompute);
  size_t num_weights = 0;
  for (const auto& [key, value] : golden.tensors) {
    if (key.rfind("weight/", 0) == 0) {
      rig.set_parameter(key.substr(7), value);
      ++num_weights;
    }
  }
  size_t num_tied = 0;
  for (const ModelParameter& parameter : rig.graph().parameters) {
    num_tied += parameter.same_as == kNoIndex ? 0 : 1;
  }
  CHECK(num_weights == rig.graph().parameters.size() - num_tied);

  rig.forward({{"input_ids", golden.at("input_ids")}});
  // The golden ones are of the last positions.
  const at::Tensor& last = golden.at("logits");
  const at::Tensor logits = rig.output("logits");
  CHECK(largest_difference(logits.narrow(1, logits.size(1) - last.size(1), last.size(1)), last) <
        1e-5);

  at::Tensor loss_sum;
  const at::Tensor grad = logits_grad(rig.output("logits"), golden.at("labels"), &loss_sum);
  CHECK(std::abs(loss_sum.item<double>() / golden.at("loss_sum").item<double>() - 1) < 1e-5);
  rig.backward("logits", grad);
  for (const auto& [key, value] : golden.tensors) {
    if (key.rfind("grad/", 0) == 0) {
      CAPTURE(key);
      const double scale = std::max(1.0, value.abs().max().item<double>());
      CHECK(largest_difference(rig.grad(key.substr(5)), value) / scale < 1e-5);
    }
  }
}

TEST_CASE("llama's kernels for fp32 agree with libtorch's operators in fp64", "[parity]") {
  const int64_t num_positions = GENERATE(1, 33, 256, 257);
  const int64_t kv_heads = GENERATE(6, 2, 1);
  CAPTURE(num_positions, kv_heads);
  ModelRig fast("llama", small_options(kv_heads), at::kFloat);
  ModelRig plain("llama", small_options(kv_heads), at::kDouble);
  for (const ModelParameter& parameter : plain.graph().parameters) {
    fast.set_parameter(parameter.name, plain.parameter(parameter.name));
    plain.set_parameter(parameter.name, fast.parameter(parameter.name));
  }
  const at::Tensor ids = (at::arange(2 * num_positions) * 7 % 50).view({2, num_positions});
  fast.forward({{"input_ids", ids}});
  plain.forward({{"input_ids", ids}});
  CHECK(largest_difference(fast.output("logits"), plain.output("logits")) < 2e-5);

  const at::Tensor grad =
      at::cos(at::arange(2 * num_positions * 50).to(at::kDouble)).view({2, -1, 50});
  fast.backward("logits", grad.to(at::kFloat));
  plain.backward("logits", grad);
  check_gradients_agree(fast, plain);
}

TEST_CASE("llama's kernels for fp32 serve widths that are no whole vectors", "[parity]") {
  const std::string options =
      R"({"vocab_size": 23, "hidden_size": 42, "intermediate_size": 37, "num_hidden_layers": 2,
          "num_attention_heads": 3, "num_key_value_heads": 1, "initializer_range": 0.2})";
  ModelRig fast("llama", options, at::kFloat);
  ModelRig plain("llama", options, at::kDouble);
  for (const ModelParameter& parameter : plain.graph().parameters) {
    fast.set_parameter(parameter.name, plain.parameter(parameter.name));
    plain.set_parameter(parameter.name, fast.parameter(parameter.name));
  }
  const at::Tensor ids = (at::arange(3 * 19) * 5 % 23).view({3, 19});
  fast.forward({{"input_ids", ids}});
  plain.forward({{"input_ids", ids}});
  CHECK(largest_difference(fast.output("logits"), plain.output("logits")) < 2e-5);
  const at::Tensor grad = at::cos(at::arange(3 * 19 * 23).to(at::kDouble)).view({3, 19, 23});
  fast.backward("logits", grad.to(at::kFloat));
  plain.backward("logits", grad);
  check_gradients_agree(fast, plain);
}

// The same with each choice of kernels; products are large enough to have one.
TEST_CASE("llama agrees with libtorch's operators in fp64 with each choice of kernels",
          "[parity]") {
  const auto choice = kernel_choices()[GENERATE(range<size_t>(0, kernel_choices().size()))];
  CAPTURE(choice.first, choice.second);
  const PolicyScope use(policy_of(choice));
  const std::string options =
      R"({"vocab_size": 64, "hidden_size": 72, "intermediate_size": 120, "num_hidden_layers": 2,
          "num_attention_heads": 6, "num_key_value_heads": 2, "initializer_range": 0.2})";
  ModelRig found("llama", options, at::kFloat);
  ModelRig expected("llama", options, at::kDouble);
  for (const ModelParameter& parameter : expected.graph().parameters) {
    found.set_parameter(parameter.name, expected.parameter(parameter.name));
    expected.set_parameter(parameter.name, found.parameter(parameter.name));
  }
  const at::Tensor ids = (at::arange(2 * 130) * 7 % 64).view({2, 130});
  const at::Tensor grad = at::cos(at::arange(2 * 130 * 64).to(at::kDouble)).view({2, -1, 64});
  for (ModelRig* const rig : {&found, &expected}) {
    rig->forward({{"input_ids", ids}});
  }
  const at::Tensor logits = expected.output("logits");
  CHECK(largest_difference(found.output("logits"), logits) <
        1e-5 * logits.abs().max().item<double>());
  found.backward("logits", grad.to(at::kFloat));
  expected.backward("logits", grad);
  check_gradients_agree(found, expected);
}

TEST_CASE("llama's plain kernels agree with its fused ones, and are others", "[parity]") {
  const int64_t num_positions = GENERATE(1, 33, 257);
  const int64_t kv_heads = GENERATE(6, 2);
  CAPTURE(num_positions, kv_heads);
  const at::Tensor ids = (at::arange(2 * num_positions) * 7 % 50).view({2, num_positions});
  const at::Tensor grad =
      at::cos(at::arange(2 * num_positions * 50).to(at::kFloat)).view({2, -1, 50});
  // Returns the logits, which a backward releases.
  const auto run = [&](ModelRig& rig, const std::string& kernels) {
    const PolicyScope use(all_kernels(kernels));
    rig.forward({{"input_ids", ids}});
    const at::Tensor logits = rig.output("logits").detach().clone();
    rig.backward("logits", grad);
    return logits;
  };
  ModelRig fused("llama", small_options(kv_heads));
  ModelRig plain("llama", small_options(kv_heads));
  const at::Tensor fused_logits = run(fused, "auto");
  const at::Tensor plain_logits = run(plain, "plain");
  if (num_positions > 1) {  // at one position attention is the identity, so bits may agree
    CHECK_FALSE(at::equal(fused_logits, plain_logits));
  }
  CHECK(largest_difference(fused_logits, plain_logits) < 2e-5);
  check_gradients_agree(fused, plain);
}

TEST_CASE("llama sees no later position", "[parity]") {
  const int64_t num_positions = GENERATE(40, 260);
  ModelRig rig("llama", small_options(2));
  const at::Tensor ids = (at::arange(num_positions) * 11 % 50).view({1, -1});
  rig.forward({{"input_ids", ids}});
  const at::Tensor before = rig.output("logits").clone();
  const at::Tensor changed = ids.clone();
  changed.narrow(1, 30, num_positions - 30).fill_(3);
  rig.forward({{"input_ids", changed}});
  const at::Tensor after = rig.output("logits");
  CHECK(largest_difference(before.narrow(1, 0, 30), after.narrow(1, 0, 30)) < 1e-5);
  CHECK(largest_difference(before.narrow(1, 30, 10), after.narrow(1, 30, 10)) > 1e-3);
}

TEST_CASE("llama's dropout acts in training alone, and is the same in a recompute", "[parity]") {
  const at::Tensor ids = (at::arange(64) * 5 % 50).view({2, 32});
  const auto run = [&](double dropout, RecomputeMode recompute, bool is_train) {
    ModelRig rig("llama", small_options(2, dropout), at::kFloat, recompute);
    rig.forward({{"input_ids", ids}}, {1, 0, is_train});
    const at::Tensor logits = rig.output("logits").clone();
    if (!is_train) {
      return std::vector<at::Tensor>{logits};
    }
    rig.backward("logits", at::ones_like(logits));
    return std::vector<at::Tensor>{logits, rig.grad("model.embed_tokens.weight").clone()};
  };
  const auto none = run(0.0, RecomputeMode::kNone, false);
  CHECK(largest_difference(none[0], run(0.3, RecomputeMode::kNone, false)[0]) < 1e-5);
  const auto kept = run(0.3, RecomputeMode::kNone, true);
  CHECK(largest_difference(none[0], kept[0]) > 1e-2);
  const auto again = run(0.3, RecomputeMode::kBlocks, true);
  CHECK(at::equal(kept[0], again[0]));
  CHECK(at::equal(kept[1], again[1]));
}

TEST_CASE("llama refuses options that are legal alone and not together", "[parity]") {
  CHECK(error_of([] {
          make_component("model", "llama", R"({"hidden_size": 10, "num_attention_heads": 4})");
        }).find("hidden_size 10 over num_attention_heads 4") != std::string::npos);
  CHECK(error_of([] {
          make_component(
              "model",
              "llama",
              R"({"hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": 4})");
        }).find("num_key_value_heads 4 must divide") != std::string::npos);
  CHECK(error_of([] {
          ModelRig rig("llama", small_options(6));
          rig.forward({{"input_ids", at::zeros({1, 301}, at::kLong)}});
        }).find("max_position_embeddings is 300") != std::string::npos);
}

}  // namespace tenon
