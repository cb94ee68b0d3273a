// SPDX-License-Identifier: Apache-2.0
//
// Ranks that divide the positions of sequences, over kinds of models, data, losses, optimizers and
// runs: each equals one rank, also across a stop after which other ranks divide them otherwise.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/ranks/finished_run.hpp"
#include "tests/ranks/mesh_kinds.hpp"
#include "tests/ranks/mesh_recipes.hpp"
#include "tests/ranks/relay.hpp"
#include "tests/recipes/host_run.hpp"
#include "tests/recipes/ranks_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/members.hpp"

namespace tenon {
namespace {

using nlohmann::json;

// Windows of 22 sequences, each evaluated before it trains.
json windows_recipe(const std::string& patch = "{}") {
  return merged(sequences_recipe(R"({"data": {
      "train": {"options": {"samples": 22, "windows": 5}},
      "eval": {"type": "token_sequences", "options": {"samples": 9}}},
      "eval": {"next_window": true}, "train": {"global_batch_size": 4}})"),
                patch);
}

// Two sources, whose losses are recorded.
json mixed_recipe(json recipe) {
  json mix = json::array();
  for (const int samples : {24, 9}) {
    json source = {{"type", recipe["data"]["train"]["type"]}, {"weight", samples}};
    source["name"] = samples == 24 ? "a" : "b";
    source["options"]["samples"] = samples;
    mix.push_back(source);
  }
  json train = {{"mix", mix}};
  if (recipe["data"]["train"].contains("packing")) {
    train["packing"] = recipe["data"]["train"]["packing"];
  }
  recipe["data"]["train"] = train;
  recipe["train"]["loss_by_source"] = true;
  return recipe;
}

json lengths_recipe() {
  json recipe = sequences_recipe();
  recipe["model"] =
      json::parse(R"({"type": "segment_lm", "options": {"segments": false, "lengths": true}})");
  recipe["optimizer"].erase("groups");
  return recipe;
}

json with_optimizer(const std::string& optimizer, const std::string& patch = "{}") {
  json recipe = short_recipe("tied");
  recipe["optimizer"] = json::parse(optimizer);
  return merged(recipe, patch);
}

json with_hook(const std::string& hook) {
  json recipe = short_recipe("tied");
  recipe["hooks"].push_back(json::parse(hook));
  return recipe;
}

json with_metrics() {
  return short_recipe("tied", R"({"metrics": [
      {"type": "accuracy", "options": {"train": "step"}}, {"type": "perplexity"},
      {"name": "top", "type": "accuracy", "options": {"train": "run", "top_k": 3}}]})");
}

constexpr char kTwo[] = R"({"parallel": {"context": 2}})";
constexpr char kGather[] = R"({"parallel": {"context": 2, "context_by": "gather"}})";
constexpr char kHalves[] = R"({"data": {"batch_size": 2}, "parallel": {"context": 2}})";
constexpr char kWhole[] = R"({"parallel": {"context": 2, "undeclared": "whole"}})";

std::vector<Kind> models() {
  return {
      {"learned positions", gpt2_recipe(), 2, kTwo},
      {"norms after blocks", decoder_recipe("olmo2"), 2, kGather},
      {"softcap and windows",
       decoder_recipe("gemma2",
                      R"({"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 3})"),
       2,
       kTwo},
      {"windows", decoder_recipe("mistral", R"({"sliding_window": 3})"), 2, kGather},
      {"a balance loss",
       decoder_recipe("qwen3_moe",
                      R"({"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8,
                          "router_aux_loss_coef": 0.1})"),
       2,
       R"({"train": {"recompute": "blocks"}, "parallel": {"context": 2}})"},
      {"rows of a memory", memory_recipe(), 2, kTwo},
      {"rows of a memory, three parts", memory_recipe(), 3, R"({"parallel": {"context": 3}})"},
      {"an adapter",
       short_recipe("untied", R"({"model": {"frozen": ["*"], "parametrizations": [
           {"match": ["*.q_proj.weight", "*.up_proj.weight"], "type": "lora",
            "options": {"rank": 4, "alpha": 8}}]}})"),
       2,
       kTwo},
      {"an adapter that reads whole weights",
       short_recipe("untied", R"({"model": {"frozen": ["*"], "parametrizations": [
           {"match": "*.q_proj.weight", "type": "dora", "options": {"rank": 4}}]}})"),
       4,
       kHalves},
      {"a block that reads lengths", lengths_recipe(), 2, kWhole},
      {"a block that reads lengths, three parts",
       lengths_recipe(),
       3,
       R"({"parallel": {"context": 3, "undeclared": "whole"}})"},
  };
}

std::vector<Kind> data_and_losses() {
  const std::string distill = R"({"type": "distill", "options": {"type": "forward_kl"}})";
  return {
      {"preferences", pair_recipe(R"({"type": "preference"})"), 2, kTwo},
      {"preferences, on halves", pair_recipe(R"({"type": "preference"})"), 4, kHalves},
      {"distillation", pair_recipe(distill), 2, kGather},
      {"distillation by chunks",
       pair_recipe(distill),
       2,
       R"({"train": {"loss_chunk": 3}, "parallel": {"context": 2}})"},
      {"smoothing",
       short_recipe("tied", R"({"loss": {"options": {"label_smoothing": 0.1, "z_loss": 0.01}}})"),
       2,
       kTwo},
      {"documents in rows", packed_recipe(), 2, kTwo},
      {"documents in rows, gathered", packed_recipe(), 4, R"({"parallel": {"context": 4,
                                                                         "context_by": "gather"}})"},
      {"documents in rows, in a window",
       packed_recipe(R"({"model": {"type": "mistral", "options": {"sliding_window": 5}}})"),
       3,
       R"({"parallel": {"context": 3}})"},
      {"sequences", sequences_recipe(), 3, R"({"parallel": {"context": 3}})"},
      {"windows of data", windows_recipe(), 4, kHalves},
      {"packed windows of data",
       windows_recipe(R"({"data": {"train": {"packing": {"length": 24, "group": 32}}}})"),
       2,
       kTwo},
      {"losses of sources", mixed_recipe(short_recipe("tied")), 2, kGather},
      {"losses of sources in rows",
       mixed_recipe(packed_recipe()),
       3,
       R"({"parallel": {"context": 3}})"},
      {"samples of one rank only",
       short_recipe("tied", R"({"data": {"batch_size": 1}, "train": {"global_batch_size": 2}})"),
       4,
       kTwo},
  };
}

std::vector<Kind> runs() {
  return {
      {"muon",
       with_optimizer(R"({"type": "muon", "options": {"lr": 0.02},
                          "groups": [{"match": "*norm*", "type": "adamw", "lr": 0.01}]})"),
       2,
       kTwo},
      {"8-bit states",
       with_optimizer(R"({"type": "adamw8bit", "options": {"lr": 0.002, "block_size": 32}})"),
       4,
       R"({"data": {"batch_size": 4}, "parallel": {"context": 2}})"},
      {"no schedule",
       with_optimizer(R"({"type": "schedule_free_adamw", "options": {"lr": 0.02}})",
                      R"({"lr_scheduler": null})"),
       2,
       kTwo},
      {"averages", with_hook(R"({"type": "ema", "options": {"decay": 0.8}})"), 2, kTwo},
      {"a hook that sees whole gradients",
       with_hook(R"({"type": "plant_at", "options": {
           "event": "before_optimizer_step", "first_step": 3, "last_step": 4,
           "into": "gradients", "waves": true, "full_parameters": true}})"),
       4,
       R"({"data": {"batch_size": 4}, "parallel": {"context": 2}})"},
      {"metrics", with_metrics(), 2, kGather},
      {"the best state",
       short_recipe("tied", R"({"eval": {"every_steps": 3,
           "keep_best": {"metric": "eval/loss", "mode": "max"}}})"),
       2,
       kTwo},
      {"one batch again and again",
       short_recipe("tied", R"({"train": {"overfit_batch": true}})"),
       2,
       kTwo},
      {"activations on disk",
       short_recipe("tied"),
       2,
       R"({"train": {"recompute": "blocks", "offload_activations": "disk"},
           "parallel": {"context": 2}})"},
      {"parameters in host memory",
       short_recipe("tied"),
       4,
       R"({"data": {"batch_size": 4}, "parallel": {"context": 2, "offload": true, "stage": 2}})"},
      {"replicas that are compared",
       short_recipe("tied"),
       4,
       R"({"data": {"batch_size": 4}, "parallel": {"context": 2, "shard": 1, "replicate": 2,
           "check_replicas_every": 2, "check_collectives": true}})"},
  };
}

}  // namespace

TEST_CASE("models on divided positions are those of one rank", "[ranks][multi-rank][members]") {
  check_kinds(models(), 2);
}

TEST_CASE("data and losses on divided positions are those of one rank",
          "[ranks][multi-rank][members]") {
  check_kinds(data_and_losses(), 2);
}

TEST_CASE("runs on divided positions are those of one rank", "[ranks][multi-rank][members]") {
  check_kinds(runs(), 1);
}

TEST_CASE("a run continues on other meshes in the middle of an epoch", "[ranks][multi-rank]") {
  const std::vector<Leg> legs = {
      {1, "{}", 2},
      {2, kTwo, 4},
      {4, kTwo, 6},
      {4, R"({"parallel": {"context": 2, "shard": 1, "replicate": 2}})", 8},
      {4, R"({"parallel": {"context": 4, "context_by": "gather"}})", 10},
      {1, "{}", 12}};
  const json recipe = packed_recipe();
  const FinishedRun run = relay(recipe, legs);
  CHECK(largest_difference(run.parameters, run_alone(recipe).parameters) <= 1e-10);
  check_metrics(run, run_alone(recipe), 1e-10);
}

TEST_CASE("autocast on divided positions differs by no more than twice an order of summation",
          "[ranks][multi-rank][.release]") {
  const json recipe = short_recipe("tied", R"({"train": {"precision": "bf16_autocast"}})");
  const NamedValues& alone = run_alone(recipe).parameters;
  const FinishedRun reordered = run_alone(merged(recipe, R"({"data": {"batch_size": 2}})"));
  const double order = norm_difference(reordered.parameters, alone);
  CHECK(order > 0);
  for (const char* const patch : {kTwo, kGather}) {
    INFO(patch);
    CHECK(norm_difference(finished_run(merged(recipe, patch), 2).parameters, alone) <= 2 * order);
  }
}

TEST_CASE("a run on divided positions resumes to the bit", "[ranks][multi-rank][.release]") {
  for (const json& recipe : {packed_recipe(R"({"train": {"precision": "fp32"}})"),
                             short_recipe("tied", R"({"train": {"overfit_batch": true}})")}) {
    INFO(recipe["train"]);
    const FinishedRun run = relay(recipe, {{2, kTwo, 5}, {2, kTwo, 12}});
    const FinishedRun whole = finished_run(merged(recipe, kTwo), 2);
    CHECK(run.parameters == whole.parameters);
    CHECK(run.parameters_hash == whole.parameters_hash);
    CHECK(run.metrics == whole.metrics);
  }
}

TEST_CASE("data, inputs and losses that cannot be divided are refused before the first step",
          "[ranks][multi-rank]") {
  struct Refused {
    json recipe;
    const char* message;
  };
  const std::string place =
      "[model.undivided] /parallel/context 2 divides the positions of "
      "sequences, and the field 'n.0' of ";
  for (const Refused& one : {
           Refused{pair_recipe(R"({"type": "preference"})"),
                   "[loss.undivided] /train/loss_chunk with /parallel/context 2: "},
           Refused{short_recipe("tied", R"({"model": {"inputs": {"input_ids": "n.0"}}, "features": [
                       {"name": "n", "from": "input_ids", "do": [{"type": "ngram"}]}]})"),
                   place.c_str()},
           Refused{json::parse(small_recipe()),
                   "[data.no_positions] /parallel/context divides the positions of sequences, and "
                   "no field of "},
       }) {
    json recipe = merged(one.recipe, kTwo);
    if (recipe.contains("models")) {
      recipe["train"]["loss_chunk"] = 4;
    }
    const RanksRun run(recipe.dump(), 2);
    INFO(one.message << "\n" << run.text());
    CHECK(run.text().find(one.message) != std::string::npos);
    CHECK(run.exit_codes() == std::vector<int>(2, 3));
    CHECK_FALSE(std::filesystem::exists(run.run_dir() / "metrics.jsonl"));
  }
}

TEST_CASE("dropout of attention weights on divided positions fails in the first step",
          "[ranks][multi-rank][.release]") {
  const RanksRun run(
      merged(short_recipe("tied", R"({"model": {"options": {"dropout": 0.1}}})"), kTwo).dump(), 2);
  INFO(run.text());
  CHECK(run.text().find("tenon::attention: dropout of attention weights is not possible where "
                        "positions are divided among ranks") != std::string::npos);
  CHECK(run.text().find("failed in step 1") != std::string::npos);
}

TEST_CASE("a non-finite value on a part is reported with its rank, and skipped by all ranks",
          "[ranks][multi-rank][.release]") {
  json of_one = with_hook(R"({"type": "plant_at", "options": {
      "event": "before_step", "first_step": 4, "into": "parameters",
      "name": "model.layers.1.mlp.up_proj.weight", "rank": 1}})");
  of_one["train"]["non_finite"]["policy"] = "stop";
  const RanksRun stopped(merged(of_one, kTwo).dump(), 2);
  INFO(stopped.text());
  CHECK(
      stopped.text().find(
          "step 4: the update is non-finite: rank 1: parameter 'model.layers.1.mlp.up_proj.weight' "
          "of block 'layers.1.feed_forward' holds 384 non-finite values") != std::string::npos);

  const json of_all = with_hook(R"({"type": "plant_at", "options": {
      "event": "before_optimizer_step", "first_step": 11, "into": "gradients",
      "name": "model.norm.weight", "full_parameters": true}})");
  const FinishedRun run = finished_run(merged(of_all, kTwo), 2);
  CHECK(largest_difference(run.parameters, run_alone(of_all).parameters) <= 1e-10);
  check_metrics(run, run_alone(of_all), 1e-10);
}

}  // namespace tenon
