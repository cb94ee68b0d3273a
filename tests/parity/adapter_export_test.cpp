// SPDX-License-Identifier: Apache-2.0
//
// Adapters from PEFT and back: folders that it saved (peft_golden.py made them) are loaded on their
// base, give its logits merged, and go out again with equal tensors; folders that do not fit are
// refused.
#include "host/checkpoint/weights_folder.hpp"

#include <ATen/Functions.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/parity/largest_difference.hpp"
#include "tests/parity/model_rig.hpp"
#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/safetensors.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kOptions[] = R"({"vocab_size": 64, "hidden_size": 16, "intermediate_size": 24,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32,
    "initializer_range": 0.25, "rms_norm_eps": 1e-5, "rope_theta": 500.0,
    "num_hidden_layers": 2, "tie_word_embeddings": false})";

fs::path golden(const std::string& name) {
  return source_dir() / "tests" / "parity" / name;
}

// Loads the base and the adapter, and changes nothing.
json recipe_of(const std::string& type) {
  json recipe = json::parse(R"({"name": "adapted", "threads": {"compute": 1},
      "model": {"type": "llama", "frozen": ["*"]},
      "data": {"batch_size": 2,
               "train": {"type": "token_rows", "options": {"samples": 26, "length": 8}}},
      "loss": {"type": "cross_entropy"},
      "optimizer": {"type": "adamw", "options": {"lr": 0.0, "weight_decay": 0.0}},
      "train": {"steps": 1}, "checkpoint": {}})");
  recipe["model"]["options"] = json::parse(kOptions);
  json& all = recipe["model"]["parametrizations"];
  const json options = {{"rank", 3}, {"alpha", 5}};
  if (type == "lora") {  // rank_pattern and alpha_pattern of one module
    all.push_back({{"match", "model.layers.0.mlp.down_proj.weight"},
                   {"type", type},
                   {"options", {{"rank", 2}, {"alpha", 6}}}});
  }
  all.push_back({{"match", {"*.q_proj.weight", "*.v_proj.weight", "*.down_proj.weight"}},
                 {"type", type},
                 {"options", options}});
  recipe["load"] = json::array(
      {{{"from", golden("hf_sharded").string()}}, {{"from", golden("peft_" + type).string()}}});
  return recipe;
}

SubprocessResult run(const ScratchFolder& scratch, const json& recipe, int num_ranks = 1) {
  const fs::path file = scratch.write("recipe.json", recipe.dump(2));
  return run_host(file, scratch.path() / "run", num_ranks);
}

void succeed(const std::vector<std::string>& words) {
  const SubprocessResult result = run_host(words);
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
}

at::Tensor logits_of(const fs::path& folder, const at::Tensor& ids) {
  ModelRig rig("llama", kOptions, at::kFloat);
  const WeightsFolder weights(folder.string());
  for (const auto& [name, tensor] : weights.tensors()) {
    rig.set_parameter(name, weights.source(name)->whole());
  }
  rig.forward({{"input_ids", ids}});
  return rig.output("logits");
}

json config_of(const fs::path& folder) {
  std::ifstream in(folder / "adapter_config.json");
  return json::parse(in);
}

}  // namespace

TEST_CASE("adapters of PEFT merge to its weights, and go out again", "[parity][.release]") {
  const std::string type = GENERATE("lora", "rslora", "dora");
  const int num_ranks = GENERATE(1, 2);
  CAPTURE(type, num_ranks);
  const ScratchFolder scratch;
  json recipe = recipe_of(type);
  if (num_ranks > 1) {
    recipe["parallel"] = {{"shard", 2}, {"stage", 3}};
  }
  const SubprocessResult result = run(scratch, recipe, num_ranks);
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  const std::string from = (scratch.path() / "run").string();
  const fs::path merged = scratch.path() / "merged";
  succeed({"--export", "hf", merged.string(), "--run-dir", from, "--merge"});
  const GoldenData data = read_safetensors(golden("peft_" + type) / "golden.safetensors");
  const WeightsFolder weights(merged.string());
  size_t num_compared = 0;
  for (const auto& [key, value] : data.tensors) {
    if (key.starts_with("merged/")) {
      CAPTURE(key);
      CHECK(largest_difference(weights.source(key.substr(7))->whole(), value) < 1e-6);
      ++num_compared;
    }
  }
  CHECK(num_compared == 6);
  CHECK(largest_difference(logits_of(merged, data.at("input_ids")), data.at("logits")) < 1e-5);

  const fs::path out = scratch.path() / "peft";
  succeed({"--export", "peft", out.string(), "--run-dir", from});
  const WeightsFolder theirs(golden("peft_" + type).string());
  const WeightsFolder ours(out.string());
  REQUIRE(ours.tensors().size() == theirs.tensors().size());
  for (const auto& [name, tensor] : theirs.tensors()) {
    CAPTURE(name);
    REQUIRE(ours.tensors().contains(name));
    CHECK(at::equal(ours.source(name)->whole(), theirs.source(name)->whole()));
  }
  const json mine = config_of(out);
  const json other = config_of(golden("peft_" + type));
  for (const char* const key :
       {"peft_type", "task_type", "r", "lora_alpha", "use_rslora", "use_dora", "bias"}) {
    CAPTURE(key);
    CHECK((type == "lora" && (key == std::string("r") || key == std::string("lora_alpha"))
               ? true
               : mine[key] == other[key]));
  }
  CHECK(mine["target_modules"] == json({"down_proj", "q_proj", "v_proj"}));
}

TEST_CASE("an adapter goes into another run of the same base only", "[parity][.release]") {
  const ScratchFolder scratch;
  const SubprocessResult first = run(scratch, recipe_of("lora"));
  REQUIRE(first.exit_code == 0);
  const fs::path out = scratch.path() / "peft";
  succeed({"--export", "peft", out.string(), "--run-dir", (scratch.path() / "run").string()});
  json again = recipe_of("lora");
  again["load"][1]["from"] = out.string();
  const ScratchFolder second;
  const SubprocessResult same = run(second, again);
  INFO(same.out << same.err);
  CHECK(same.exit_code == 0);

  json other = again;
  other["load"].erase(0);  // the initial base of the recipe
  const ScratchFolder third;
  const SubprocessResult refused = run(third, other);
  CHECK(refused.exit_code == 3);
  CHECK_THAT(refused.err, contains_text("the adapter was trained on another base"));
}

TEST_CASE("PEFT folders that do not fit the recipe are refused", "[parity]") {
  const ScratchFolder scratch;
  const auto said = [&](const json& recipe) {
    const ScratchFolder desk;
    const SubprocessResult result = run(desk, recipe);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 3);
    return result.err;
  };
  json recipe = recipe_of("rslora");
  recipe["model"]["parametrizations"][0]["options"]["rank"] = 4;
  CHECK_THAT(said(recipe),
             contains_text("rank of 'model.layers.0.self_attn.q_proj' is 4 in the recipe, and 3 in "
                           "adapter_config.json"));
  recipe = recipe_of("rslora");
  recipe["model"]["parametrizations"][0]["type"] = "lora";
  CHECK_THAT(said(recipe),
             contains_text("use_rslora of 'model.layers.0.self_attn.q_proj' is false "
                           "in the recipe, and true in adapter_config.json"));
  recipe = recipe_of("rslora");
  recipe["model"]["parametrizations"][0]["match"] = {"*.q_proj.weight", "*.v_proj.weight"};
  CHECK_THAT(said(recipe),
             contains_text("'base_model.model.model.layers.0.mlp.down_proj.lora_A.weight' is not "
                           "in the model"));
  recipe = recipe_of("rslora");
  recipe["model"].erase("parametrizations");
  CHECK_THAT(said(recipe),
             contains_text("it has an adapter, and the recipe has no parametrizations"));
}

TEST_CASE("PEFT folders that change the base, or compute more, are refused by name", "[parity]") {
  const ScratchFolder scratch;
  const fs::path folder = scratch.path() / "peft";
  fs::copy(golden("peft_rslora"), folder);
  fs::remove(folder / "golden.safetensors");
  const json config = config_of(folder);
  const auto said = [&](const json& patch) {
    json changed = config;
    changed.merge_patch(patch);
    scratch.write("peft/adapter_config.json", changed.dump());
    json recipe = recipe_of("rslora");
    recipe["load"][1]["from"] = folder.string();
    const ScratchFolder desk;
    const SubprocessResult result = run(desk, recipe);
    INFO(result.out << result.err);
    CHECK(result.exit_code == 3);
    return result.err;
  };
  for (const char* const init : {"pissa", "pissa_niter_4", "olora", "corda", "lora_ga", "loftq"}) {
    CHECK_THAT(said({{"init_lora_weights", init}}),
               contains_text("init_lora_weights is \"" + std::string(init) + "\""));
  }
  CHECK_THAT(said({{"trainable_token_indices", {3, 4}}}),
             contains_text("trainable_token_indices is [3,4]"));
  CHECK_THAT(said({{"lora_bias", true}}), contains_text("lora_bias is true"));
  CHECK_THAT(said({{"alora_invocation_tokens", {1}}}),
             contains_text("alora_invocation_tokens is [1]"));
  CHECK_THAT(said({{"target_parameters", {"mlp.experts.gate_up_proj"}}}),
             contains_text("target_parameters is "));
  CHECK_THAT(said({{"bias", "lora_only"}}), contains_text("bias is \"lora_only\""));
  CHECK_THAT(said({{"fan_in_fan_out", true}}),
             contains_text("fan_in_fan_out of 'model.layers.0.self_attn.q_proj' is false in the "
                           "recipe, and true"));
}

TEST_CASE("adapters of an embedding have PEFT's names and axes, and modules it saved are loaded",
          "[parity]") {
  const ScratchFolder scratch;
  json recipe = recipe_of("lora");
  recipe["model"]["parametrizations"] = json::parse(R"([{"type": "lora",
      "match": ["model.embed_tokens.weight", "lm_head.weight"],
      "options": {"rank": 3, "alpha": 5}}])");
  recipe["load"].erase(1);
  recipe["optimizer"]["options"] = {{"lr", 0.05}};
  recipe["train"]["steps"] = 3;
  const SubprocessResult trained = run(scratch, recipe);
  INFO(trained.out << trained.err);
  REQUIRE(trained.exit_code == 0);
  const std::string from = (scratch.path() / "run").string();
  const fs::path adapter = scratch.path() / "peft";
  const fs::path merged = scratch.path() / "merged";
  succeed({"--export", "peft", adapter.string(), "--run-dir", from});
  succeed({"--export", "hf", merged.string(), "--run-dir", from, "--merge"});
  const WeightsFolder ours(adapter.string());
  const auto shape_of = [&](const std::string& name) {
    REQUIRE(ours.tensors().contains("base_model.model." + name));
    return ours.tensors().at("base_model.model." + name).shape;
  };
  CHECK(ours.tensors().size() == 4);
  CHECK(shape_of("model.embed_tokens.lora_embedding_A") == std::vector<int64_t>{3, 64});
  CHECK(shape_of("model.embed_tokens.lora_embedding_B") == std::vector<int64_t>{16, 3});
  CHECK(shape_of("lm_head.lora_A.weight") == std::vector<int64_t>{3, 16});
  CHECK(config_of(adapter)["target_modules"] == json({"embed_tokens", "lm_head"}));

  // PEFT saves the layers beside their adapters, as base_layer; here with another head.
  std::vector<WeightTensor> tensors;
  std::vector<at::Tensor> values;
  for (const auto& [name, tensor] : ours.tensors()) {
    tensors.push_back(tensor);
    values.push_back(ours.source(name)->whole());
  }
  const WeightsFolder base(golden("hf_sharded").string());
  for (const auto& [name, of_base] :
       {std::pair{"model.embed_tokens.base_layer.weight", "model.embed_tokens.weight"},
        std::pair{"lm_head.base_layer.weight", "lm_head.weight"},
        std::pair{"model.norm.weight", "model.norm.weight"}}) {
    tensors.push_back({.name = "base_model.model." + std::string(name),
                       .dtype = at::kFloat,
                       .shape = base.tensors().at(of_base).shape});
    values.push_back(base.source(of_base)->whole().to(at::kFloat) * 2);
  }
  const fs::path saved = scratch.path() / "saved";
  write_weights_folder(
      saved.string(),
      tensors,
      [&](size_t i) { return values[i]; },
      {{"adapter_config.json", config_of(adapter).dump()}},
      uint64_t{1} << 40,
      "adapter_");
  json again = recipe;
  again["load"].push_back({{"from", saved.string()}});
  again["optimizer"]["options"] = {{"lr", 0.0}, {"weight_decay", 0.0}};
  again["train"]["steps"] = 1;
  const ScratchFolder second;
  const SubprocessResult loaded = run(second, again);
  INFO(loaded.out << loaded.err);
  REQUIRE(loaded.exit_code == 0);
  const fs::path out = second.path() / "merged";
  succeed(
      {"--export", "hf", out.string(), "--run-dir", (second.path() / "run").string(), "--merge"});
  const WeightsFolder before(merged.string());
  const WeightsFolder after(out.string());
  for (const char* const name : {"model.embed_tokens.weight", "lm_head.weight"}) {
    CAPTURE(name);
    // Twice the base, and the same update.
    const at::Tensor expected =
        before.source(name)->whole() + base.source(name)->whole().to(at::kFloat);
    CHECK(largest_difference(after.source(name)->whole(), expected) < 1e-5);
  }
  CHECK(at::equal(after.source("model.norm.weight")->whole(),
                  base.source("model.norm.weight")->whole().to(at::kFloat) * 2));

  const fs::path python = source_dir() / ".deps/peers/bin/python";
  if (!fs::exists(python) ||
      run_subprocess({python.string(), "-c", "import peft"}).exit_code != 0) {
    TENON_SKIP("there is no Python with peft; `./dev deps --lm` brings one");
  }
  const SubprocessResult compared = run_subprocess({python.string(),
                                                    golden("peft_peer.py").string(),
                                                    golden("hf_sharded").string(),
                                                    adapter.string(),
                                                    merged.string()});
  INFO(compared.out << compared.err);
  CHECK(compared.exit_code == 0);
}

TEST_CASE("PEFT loads what was trained here", "[parity][.release]") {
  const fs::path python = source_dir() / ".deps/peers/bin/python";
  const SubprocessResult found = fs::exists(python)
                                     ? run_subprocess({python.string(), "-c", "import peft"})
                                     : SubprocessResult{};
  if (!fs::exists(python) || found.exit_code != 0) {
    TENON_SKIP("there is no Python with peft; `./dev deps --lm` brings one");
  }
  const std::string type = GENERATE("lora", "rslora", "dora");
  CAPTURE(type);
  const ScratchFolder scratch;
  json recipe = recipe_of(type);
  recipe["optimizer"]["options"] = {{"lr", 0.05}};
  recipe["train"]["steps"] = 3;
  const SubprocessResult result = run(scratch, recipe);
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  const std::string from = (scratch.path() / "run").string();
  const fs::path adapter = scratch.path() / "peft";
  const fs::path merged = scratch.path() / "merged";
  succeed({"--export", "peft", adapter.string(), "--run-dir", from});
  succeed({"--export", "hf", merged.string(), "--run-dir", from, "--merge"});
  const SubprocessResult compared = run_subprocess({python.string(),
                                                    golden("peft_peer.py").string(),
                                                    golden("hf_sharded").string(),
                                                    adapter.string(),
                                                    merged.string()});
  INFO(compared.out << compared.err);
  CHECK(compared.exit_code == 0);
}

}  // namespace tenon
