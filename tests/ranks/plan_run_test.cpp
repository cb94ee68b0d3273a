// SPDX-License-Identifier: Apache-2.0
//
// What --plan says against what runs of 1, 2 and 4 ranks send and hold.
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/members.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

// Recipes save no checkpoint, since a plan does not count its copy of the state.
std::string recipe_of(json recipe, const std::string& patch, int steps) {
  recipe["threads"] = {{"compute", 1}};
  recipe["device"] = "cpu";
  recipe["train"]["steps"] = steps;
  recipe.merge_patch(json::parse(patch));
  return recipe.dump(2);
}

// A small llama, whose memory is mostly activations.
json llama() {
  json recipe = json::parse(R"({
    "name": "planned",
    "model": {"type": "llama", "options": {"vocab_size": 256, "hidden_size": 64,
      "intermediate_size": 176, "num_hidden_layers": 3, "num_attention_heads": 4,
      "num_key_value_heads": 2}},
    "data": {"batch_size": 8, "train": {"type": "text", "options": {"sequence_length": 128,
      "tokenizer": {"type": "byte"}}}},
    "loss": {"type": "cross_entropy"},
    "optimizer": {"type": "adamw", "options": {"lr": 1e-3}},
    "train": {"clip_grad_norm": 1.0}
  })");
  recipe["data"]["train"]["options"]["path"] = (source_dir() / "data/kjv.txt").string();
  return recipe;
}

// Ids of a batch seldom repeat, so that ranks exchange about as many rows as planned. Which library
// computes products, with its own memory, would depend on the machine.
json with_tables(const std::string& model) {
  return json::parse(R"({
    "name": "planned", "kernels": "plain",
    "model": )" + model +
                     R"(,
    "data": {"batch_size": 512, "train": {"type": "criteo_like",
      "options": {"samples": 65536, "exponents": [0.1, 0.1]}}},
    "tables": {"*": {"optimizer": {"type": "rowwise_adagrad", "options": {"lr": 0.02}}}},
    "loss": {"type": "bce_with_logits", "inputs": {"labels": "label"}},
    "optimizer": {"type": "adamw", "options": {"lr": 1e-3}}
  })");
}

json dlrm() {
  return with_tables(R"({"type": "dlrm", "options": {"categorical": ["c0..c25"],
    "dense": [{"name": "dense", "size": 13}], "dim": 16, "bottom": [64], "top": [256, 128]}})");
}

json deepfm() {
  return with_tables(R"({"type": "deepfm", "options": {"categorical": ["c0..c25"],
    "dense": [{"name": "dense", "size": 13}], "dim": 16, "hidden": [256, 128]}})");
}

// Preference training with a reference.
json pairs() {
  json recipe = json::parse(R"({
    "name": "planned",
    "data": {"batch_size": 32, "train": {"type": "pair_rows",
      "options": {"samples": 4096}}},
    "loss": {"type": "preference"},
    "optimizer": {"type": "adamw", "options": {"lr": 1e-3}},
    "train": {"clip_grad_norm": 1.0}
  })");
  const std::string weights = (source_dir() / "tests/parity/hf_sharded").string();
  const json options = json::parse(R"({
    "vocab_size": 64, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32,
    "rms_norm_eps": 1e-5, "rope_theta": 500.0, "initializer_range": 0.25})");
  recipe["load"] = json::array({{{"from", weights}}});
  recipe["models"]["main"] = {{"type", "llama"}, {"options", options}};
  recipe["models"]["reference"] = {{"type", "llama"},
                                   {"optimizer", false},
                                   {"options", options},
                                   {"load", json::array({{{"from", weights}}})}};
  return recipe;
}

json summary_of(const std::string& recipe, int ranks) {
  const Words arguments = ranks > 1 ? Words{"--launch", std::to_string(ranks)} : Words{};
  const HostRun run(recipe, arguments);
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 0);
  return run.summary();
}

json plan_of(const std::string& recipe, int ranks) {
  const ScratchFolder folder;
  const SubprocessResult result = run_host({"--plan",
                                            std::to_string(ranks),
                                            "--json",
                                            "--recipe",
                                            folder.write("recipe.json", recipe).string()});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return json::parse(result.out)["plan"];
}

struct PlanCase {
  int ranks = 1;
  std::string patch;
};

void check_case(const json& recipe, const PlanCase& of) {
  CAPTURE(of.ranks, of.patch);
  json plan = plan_of(recipe_of(recipe, of.patch, 1), of.ranks);
  if (plan.contains("pipeline_ranks")) {  // a summary is that of rank 0
    plan = plan["pipeline_ranks"][0];
  }
  // What stands before the first step and after the last one is in both.
  const json two = summary_of(recipe_of(recipe, of.patch, 2), of.ranks);
  const json four = summary_of(recipe_of(recipe, of.patch, 4), of.ranks);
  for (const char* const kind : {"all_gather", "reduce_scatter", "all_reduce", "send"}) {
    CAPTURE(kind);
    const auto sent =
        four["sent_bytes"][kind].get<int64_t>() - two["sent_bytes"][kind].get<int64_t>();
    CHECK(plan["traffic"][kind]["sent"].get<int64_t>() * 2 == sent);
  }
  const auto peak = four["peak_tensor_bytes"].get<double>();
  if (peak > 0) {  // under sanitizers nothing counts
    const auto planned = plan["memory"]["sum"].get<double>();
    CAPTURE(planned, peak);
    CHECK(planned >= 0.95 * peak);
    CHECK(planned <= 1.05 * peak);
  }
}

}  // namespace

TEST_CASE("ranks send in a step what was planned, and hold what was planned", "[ranks][members]") {
  const std::vector<PlanCase> cases = {
      {1, R"({})"},
      {1, R"({"train": {"recompute": "blocks"}})"},
      {1, R"({"train": {"recompute": "selective"}})"},
      {1, R"({"train": {"tile": 16}})"},
      {1, R"({"train": {"recompute": "blocks", "tile": 16, "loss_chunk": 16}})"},
      {1, R"({"train": {"recompute": "selective", "tile": 16, "loss_chunk": 16,
                                 "offload_activations": "disk"}})"},
      {1, R"({"train": {"precision": "bf16_autocast"}})"},
      {1, R"({"hooks": [{"type": "ema"}], "data": {"batch_size": 1}})"},
      {2, R"({"train": {"gradient_accumulation": 2}})"},
      {2, R"({"hooks": [{"type": "ema"}], "data": {"batch_size": 1},
                       "train": {"precision": "bf16_params"}})"},
      {2, R"({"train": {"recompute": "selective", "tile": 16, "loss_chunk": 16,
                                 "offload_activations": "disk"}})"},
      {2, R"({"parallel": {"stage": 1}, "train": {"gradient_accumulation": 2}})"},
      {2, R"({"parallel": {"stage": 2}, "train": {"precision": "bf16_params"}})"},
      {2, R"({"parallel": {"replicate": 2, "shard": 1, "gradient_dtype": "bf16"}})"},
      {2, R"({"parallel": {"reshard_after_forward": true, "unsharded": ["layers.1"]},
                       "model": {"options": {"tie_word_embeddings": true}}})"},
      {3, R"({"parallel": {"reshard_after_forward": false}})"},
      {4, R"({"parallel": {"replicate": 2}, "train": {"recompute": "blocks"}})"},
      {4, R"({"parallel": {"shard": 4}, "kernels": "plain"})"},
      // The adapters of layer 2 alone are trained, and frozen blocks of a unit run again.
      {1,
       R"({"model": {"frozen": ["*"], "parametrizations": [{"match": ["*layers.2.*_proj.weight"],
                "type": "lora", "options": {"rank": 8, "alpha": 16}}]},
              "train": {"recompute": "blocks"}})"},
      {1, R"({"model": {"frozen": ["*"], "parametrizations": [{"match": ["*_proj.weight"],
                "type": "lora", "options": {"rank": 8, "alpha": 16}}]},
              "train": {"recompute": "selective", "tile": 16, "loss_chunk": 16}})"},
      {2, R"({"model": {"frozen": ["*"], "parametrizations": [{"match": ["*_proj.weight"],
                "type": "lora", "options": {"rank": 8, "alpha": 16}}]},
              "train": {"recompute": "selective", "tile": 16, "loss_chunk": 16}})"},
      {2, R"({"parallel": {"stage": 2}, "train": {"gradient_accumulation": 3}})"},
      {4, R"({"parallel": {"replicate": 2}, "train": {"gradient_accumulation": 2}})"},
      {1, R"({"train": {"update_in_backward": true, "clip_grad_norm": null,
                        "non_finite": {"policy": "stop"}}})"}};
  for (const PlanCase& of : members_of(cases, 6)) {
    check_case(llama(), of);
  }
}

TEST_CASE("plans of pipelines", "[ranks][members]") {
  const std::vector<PlanCase> cases = {
      {2, R"({"parallel": {"pipeline": 2}, "train": {"gradient_accumulation": 4}})"},
      {2, R"({"parallel": {"pipeline": 2, "schedule": "gpipe"},
              "train": {"gradient_accumulation": 4, "recompute": "blocks"}})"},
      {2, R"({"parallel": {"pipeline": 2}, "train": {"gradient_accumulation": 3},
              "model": {"options": {"tie_word_embeddings": true}}})"},
      // Rank 0 has the first and the last stage.
      {2, R"({"parallel": {"pipeline": 2, "schedule": "zb-v"},
              "train": {"gradient_accumulation": 4, "loss_chunk": 16}})"},
      {4, R"({"parallel": {"pipeline": 2, "shard": 2, "schedule": "gpipe"},
              "train": {"gradient_accumulation": 3}})"},
      {4, R"({"parallel": {"pipeline": 2, "replicate": 2, "shard": 1, "gradient_dtype": "bf16"},
              "train": {"gradient_accumulation": 2},
              "model": {"options": {"tie_word_embeddings": true}}})"},
      {4, R"({"parallel": {"pipeline": 2, "shard": 2, "stage": 2, "schedule": "zb-v"},
              "train": {"gradient_accumulation": 4},
              "model": {"options": {"tie_word_embeddings": true}}})"},
      {4, R"({"parallel": {"pipeline": 4}, "train": {"gradient_accumulation": 2,
              "precision": "bf16_params"}})"},
      {2, R"({"parallel": {"pipeline": 2, "schedule": "interleaved"},
              "train": {"gradient_accumulation": 4, "recompute": "selective"}})"}};
  for (const PlanCase& of : members_of(cases, 3)) {
    check_case(llama(), of);
  }
}

TEST_CASE("plans of models with tables", "[ranks]") {
  for (const int ranks : {1, 2}) {
    check_case(dlrm(), {ranks, "{}"});
    check_case(deepfm(), {ranks, "{}"});
  }
}

TEST_CASE("plans with a reference model", "[ranks]") {
  check_case(pairs(), {1, "{}"});
  check_case(pairs(), {2, "{}"});
  check_case(pairs(), {2, R"({"parallel": {"stage": 2}, "train": {"recompute": "blocks"}})"});
}

}  // namespace tenon
