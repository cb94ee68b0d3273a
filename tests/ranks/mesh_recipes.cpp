// SPDX-License-Identifier: Apache-2.0
#include "tests/ranks/mesh_recipes.hpp"

#include <map>
#include <utility>

#include "tests/support/paths.hpp"

namespace tenon {

nlohmann::json merged(nlohmann::json recipe, const std::string& patch) {
  recipe.merge_patch(nlohmann::json::parse(patch));
  return recipe;
}

nlohmann::json mesh_base_recipe() {
  return nlohmann::json::parse(R"({
    "name": "ranks", "threads": {"compute": 1},
    "data": {"batch_size": 8, "train": {"type": "token_rows", "options": {"samples": 61}},
             "eval": {"type": "token_rows", "options": {"samples": 21}}},
    "loss": {"type": "cross_entropy"},
    "optimizer": {"type": "adamw", "options": {"lr": 3e-3}},
    "lr_scheduler": {"type": "cosine", "options": {"warmup_steps": 5, "min_ratio": 0.1}},
    "hooks": [{"type": "keep_parameters"}],
    "train": {"steps": 50, "global_batch_size": 8, "clip_grad_norm": 0.5, "precision": "fp64",
              "log_every": 1},
    "eval": {"every_steps": 25},
    "parallel": {"timeout_seconds": 30}
  })");
}

nlohmann::json mesh_recipe(const std::string& model) {
  const std::string llama = R"("type": "llama", "options": {
    "vocab_size": 16, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 8,
    "initializer_range": 0.3)";
  if (model == "tied") {
    return merged(mesh_base_recipe(),
                  R"({"model": {)" + llama + R"(, "tie_word_embeddings": true}}})");
  }
  if (model == "untied") {
    return merged(mesh_base_recipe(), R"({"model": {)" + llama + R"(}},
      "optimizer": {"groups": [{"match": "*norm.weight", "type": "sgd", "lr": 0.01},
                               {"match": "*_proj.weight", "weight_decay": 0.1}]},
      "train": {"clip_grad_norm": null, "clip_grad_value": 0.02}})");
  }
  if (model == "frozen") {
    return merged(mesh_recipe("untied"), R"({"model": {"frozen": ["*embed*", "*layers.1.*"]}})");
  }
  if (model == "experts") {  // balanced by biases and by losses, over tokens of a step
    return merged(mesh_base_recipe(),
                  R"({"train": {"steps": 20}, "model": {"type": "deepseek_v3", "options": {
      "vocab_size": 16, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
      "num_attention_heads": 2, "max_position_embeddings": 8, "initializer_range": 0.3,
      "q_lora_rank": 8, "kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 4,
      "v_head_dim": 8, "n_routed_experts": 6, "n_group": 1, "topk_group": 1,
      "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 8,
      "first_k_dense_replace": 1, "bias_update_speed": 0.05, "router_aux_loss_coef": 0.1,
      "router_z_loss_coef": 0.01}}})");
  }
  const std::string type = model == "module" ? "module_lm" : model;
  return merged(mesh_base_recipe(), R"({"model": {"type": ")" + type + R"("}})");
}

nlohmann::json sequences_recipe(const std::string& patch) {
  nlohmann::json recipe =
      merged(mesh_recipe("untied"),
             R"({"train": {"steps": 12}, "model": {"options": {"max_position_embeddings": 32}},
      "data": {"batch_size": 4}, "eval": null})");
  recipe["data"].erase("eval");
  recipe["data"]["train"] = nlohmann::json::parse(
      R"({"type": "token_sequences", "options": {"samples": 60, "ignored": true}})");
  return merged(recipe, patch);
}

nlohmann::json packed_recipe(const std::string& patch) {
  return merged(sequences_recipe(R"({
      "data": {"batch_size": 2, "train": {"packing": {"length": 24, "group": 32}}},
      "train": {"global_batch_size": null, "global_batch_tokens": 96}})"),
                patch);
}

nlohmann::json pair_recipe(const std::string& loss) {
  nlohmann::json recipe =
      merged(mesh_recipe("untied"), R"({"data": {"batch_size": 4}, "eval": {"every_steps": 4},
      "train": {"steps": 8, "global_batch_size": 4}})");
  recipe["data"]["train"] = nlohmann::json::parse(R"({"type": "pair_rows"})");
  recipe["data"]["eval"] =
      nlohmann::json::parse(R"({"type": "pair_rows", "options": {"samples": 10}})");
  const nlohmann::json sizes = nlohmann::json::parse(R"({"type": "llama", "options": {
      "vocab_size": 64, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
      "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32,
      "rms_norm_eps": 1e-5, "rope_theta": 500.0, "initializer_range": 0.25}})");
  recipe.erase("model");
  recipe["models"] = {{"main", sizes}, {"reference", sizes}};
  recipe["models"]["reference"].merge_patch(
      nlohmann::json::parse(R"({"optimizer": false, "options": {
      "tie_word_embeddings": true,
      "rope_scaling": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
                       "high_freq_factor": 4.0, "original_max_position_embeddings": 8}}})"));
  recipe["models"]["reference"]["load"] =
      nlohmann::json::array({{{"from", (source_dir() / "tests/parity/hf_tied").string()}}});
  recipe["loss"] = nlohmann::json::parse(loss);
  return recipe;
}

const FinishedRun& run_alone(const nlohmann::json& recipe) {
  static std::map<std::string, FinishedRun> known;
  const auto found = known.find(recipe.dump());
  return found != known.end() ? found->second
                              : known.emplace(recipe.dump(), finished_run(recipe, 1)).first->second;
}

}  // namespace tenon
