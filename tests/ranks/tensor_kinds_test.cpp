// SPDX-License-Identifier: Apache-2.0
//
// Ranks that divide the parameters of blocks, over kinds of models, losses, optimizers, hooks and
// runs: each equals one rank, also across a stop after which other ranks divide them otherwise.
#include <string>
#include <utility>
#include <vector>

#include "tests/ranks/finished_run.hpp"
#include "tests/ranks/mesh_kinds.hpp"
#include "tests/ranks/mesh_recipes.hpp"
#include "tests/ranks/relay.hpp"
#include "tests/recipes/ranks_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using nlohmann::json;

constexpr char kTwo[] = R"({"parallel": {"tensor": 2}})";
constexpr char kHalves[] = R"({"data": {"batch_size": 4}, "parallel": {"tensor": 2}})";

// 12 steps, so that there is a step with idle ranks.
json divided_recipe(const std::string& patch = "{}") {
  return merged(merged(mesh_base_recipe(), R"({"model": {"type": "divided_lm"},
                    "train": {"steps": 12}, "eval": {"every_steps": 6}})"),
                patch);
}

// The same with as many heads of keys as of queries: a rank stores a part of each matrix.
json wide_recipe(const std::string& patch = "{}") {
  return merged(divided_recipe(R"({"model": {"options": {"key_heads": 4}}})"), patch);
}

json with_optimizer(json recipe, const std::string& optimizer) {
  recipe["optimizer"] = json::parse(optimizer);
  return recipe;
}

json with_hook(const std::string& hook) {
  json recipe = wide_recipe();
  recipe["hooks"].push_back(json::parse(hook));
  return recipe;
}

std::vector<Kind> models() {
  return {
      {"fewer heads of keys than ranks, tied", short_recipe("tied"), 2, kTwo},
      {"more ranks than heads of keys",
       decoder_recipe("llama", R"({"num_attention_heads": 4, "num_key_value_heads": 2})"),
       4,
       R"({"train": {"recompute": "blocks"}, "parallel": {"tensor": 4}})"},
      {"chunks of the loss",
       short_recipe("untied"),
       4,
       R"({"data": {"batch_size": 4}, "train": {"loss_chunk": 3}, "parallel": {"tensor": 2}})"},
      {"learned positions", gpt2_recipe(), 2, kTwo},
      {"norms over all heads", decoder_recipe("olmo2"), 2, kTwo},
      {"fused matrices", decoder_recipe("phi3"), 2, kTwo},
      {"softcap and windows",
       decoder_recipe("gemma2",
                      R"({"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 3})"),
       2,
       kTwo},
      {"a balance loss",
       decoder_recipe("qwen3_moe",
                      R"({"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8,
                          "router_aux_loss_coef": 0.1})"),
       2,
       R"({"train": {"recompute": "blocks"}, "parallel": {"tensor": 2}})"},
      {"latent attention, experts balanced by biases",
       short_recipe("experts"),
       4,
       R"({"data": {"batch_size": 4}, "parallel": {"tensor": 2}})"},
      {"an adapter",
       short_recipe("untied", R"({"model": {"frozen": ["*"], "parametrizations": [
           {"match": ["*.q_proj.weight", "*.up_proj.weight", "*.down_proj.weight"],
            "type": "lora", "options": {"rank": 4, "alpha": 8}}]}})"),
       2,
       kTwo},
      {"an adapter that reads whole weights",
       short_recipe("untied", R"({"model": {"frozen": ["*"], "parametrizations": [
           {"match": "*.q_proj.weight", "type": "dora", "options": {"rank": 4}}]}})"),
       4,
       kHalves},
  };
}

std::vector<Kind> data_and_losses() {
  const std::string distill = R"({"type": "distill", "options": {"type": "forward_kl"}})";
  return {
      {"preferences", pair_recipe(R"({"type": "preference"})"), 2, kTwo},
      {"distillation by chunks",
       pair_recipe(distill),
       2,
       R"({"train": {"loss_chunk": 3}, "parallel": {"tensor": 2}})"},
      {"smoothing",
       short_recipe("tied", R"({"loss": {"options": {"label_smoothing": 0.1, "z_loss": 0.01}}})"),
       2,
       kTwo},
      {"documents in rows", packed_recipe(), 2, kTwo},
      {"documents in rows, with divided positions",
       packed_recipe(),
       4,
       R"({"parallel": {"tensor": 2, "context": 2}})"},
      {"sequences", sequences_recipe(), 4, R"({"parallel": {"tensor": 2, "shard": 2}})"},
  };
}

std::vector<Kind> optimizers() {
  const std::string muon = R"({"type": "muon", "options": {"lr": 0.02}, "groups": [
      {"match": "*norm*", "type": "adamw", "lr": 0.01},
      {"match": "*.bias", "type": "adamw", "lr": 0.01},
      {"match": "scale", "type": "adamw", "lr": 0.01}]})";
  const std::string eight = R"({"type": "adamw8bit", "options": {"lr": 0.002, "block_size": )";
  return {
      {"matrices", with_optimizer(divided_recipe(), muon), 2, kTwo},
      {"matrices, on halves", with_optimizer(wide_recipe(), muon), 4, kHalves},
      {"blocks that no part cuts", with_optimizer(wide_recipe(), eight + "16}}"), 4, kHalves},
      {"blocks that parts cut", with_optimizer(wide_recipe(), eight + "64}}"), 4, kHalves},
      {"factors of matrices",
       with_optimizer(wide_recipe(), R"({"type": "adafactor", "options": {"lr": 0.01}})"),
       4,
       kHalves},
      {"no schedule",
       with_optimizer(wide_recipe(R"({"lr_scheduler": null})"),
                      R"({"type": "schedule_free_adamw", "options": {"lr": 0.02}})"),
       2,
       kTwo},
  };
}

std::vector<Kind> runs() {
  const std::string plant = R"({"type": "plant_at", "options": {
      "first_step": 3, "last_step": 4, "waves": true, "full_parameters": true, )";
  return {
      {"averages", with_hook(R"({"type": "ema", "options": {"decay": 0.8}})"), 4, kHalves},
      {"a hook that writes whole gradients",
       with_hook(plant + R"("event": "before_optimizer_step", "into": "gradients"}})"),
       4,
       kHalves},
      {"a hook that writes whole parameters",
       with_hook(plant + R"("event": "after_step", "into": "parameters"}})"),
       4,
       kHalves},
      {"a hook that reads outputs",
       with_hook(R"({"type": "output_sums", "options": {"outputs": ["logits", "scores", "z"]}})"),
       2,
       R"({"train": {"recompute": "blocks"}, "parallel": {"tensor": 2}})"},
      {"the best state",
       divided_recipe(R"({"eval": {"every_steps": 3,
                        "keep_best": {"metric": "eval/loss", "mode": "max"}}})"),
       2,
       kTwo},
      {"one batch again and again",
       divided_recipe(R"({"train": {"overfit_batch": true}})"),
       2,
       kTwo},
      {"each microbatch weighs the same",
       divided_recipe(R"({"data": {"batch_size": 4}, "train": {"normalize": "microbatch"}})"),
       2,
       kTwo},
      {"activations on disk",
       divided_recipe(),
       2,
       R"({"train": {"recompute": "blocks", "offload_activations": "disk"},
           "parallel": {"tensor": 2}})"},
      {"parameters in host memory",
       wide_recipe(),
       4,
       R"({"data": {"batch_size": 4}, "parallel": {"tensor": 2, "offload": true, "stage": 2}})"},
      {"replicas that are compared",
       divided_recipe(),
       4,
       R"({"data": {"batch_size": 4}, "parallel": {"tensor": 2, "shard": 1, "replicate": 2,
           "check_replicas_every": 2, "check_collectives": true}})"},
      {"a block that each rank keeps whole",
       wide_recipe(),
       4,
       R"({"data": {"batch_size": 4}, "parallel": {"tensor": 2, "unsharded": ["attend"]}})"},
      {"small buckets",
       wide_recipe(),
       4,
       R"({"data": {"batch_size": 4}, "parallel": {"tensor": 2, "shard": 1, "replicate": 2,
           "bucket_bytes": 100}})"},
  };
}

}  // namespace

TEST_CASE("models on divided blocks are those of one rank", "[ranks][multi-rank][members]") {
  check_kinds(models(), 3);
}

TEST_CASE("data and losses on divided blocks are those of one rank",
          "[ranks][multi-rank][members]") {
  check_kinds(data_and_losses(), 2);
}

TEST_CASE("optimizers of divided parameters are those of one rank",
          "[ranks][multi-rank][members]") {
  check_kinds(optimizers(), 2);
}

TEST_CASE("runs on divided blocks are those of one rank", "[ranks][multi-rank][members]") {
  check_kinds(runs(), 2);
}

TEST_CASE("a run continues on other divisions of its blocks", "[ranks][multi-rank]") {
  const std::vector<Leg> legs = {{1, "{}", 2},
                                 {2, kTwo, 4},
                                 {4, kHalves, 6},
                                 {4, R"({"parallel": {"tensor": 4}})", 8},
                                 {4,
                                  R"({"data": {"batch_size": 4},
              "parallel": {"tensor": 2, "shard": 1, "replicate": 2}})",
                                  10},
                                 {1, "{}", 12}};
  for (const json& recipe : {divided_recipe(), wide_recipe()}) {
    INFO(recipe["model"]);
    const FinishedRun run = relay(recipe, legs);
    CHECK(largest_difference(run.parameters, run_alone(recipe).parameters) <= 1e-10);
    check_metrics(run, run_alone(recipe), 1e-10);
  }
}

TEST_CASE("a run on divided blocks resumes to the bit", "[ranks][multi-rank][.release]") {
  for (const json& recipe : {wide_recipe(R"({"train": {"precision": "fp32"}})"),
                             divided_recipe(R"({"train": {"overfit_batch": true}})")}) {
    INFO(recipe["train"]);
    const FinishedRun run = relay(recipe, {{2, kTwo, 5}, {2, kTwo, 12}});
    const FinishedRun whole = finished_run(merged(recipe, kTwo), 2);
    CHECK(run.parameters == whole.parameters);
    CHECK(run.parameters_hash == whole.parameters_hash);
    CHECK(run.metrics == whole.metrics);
  }
}

TEST_CASE("autocast in divided blocks is as far from fp64 as on one rank",
          "[ranks][multi-rank][.release]") {
  const json recipe = divided_recipe(R"({"train": {"precision": "bf16_autocast"}})");
  const NamedValues exact = run_alone(divided_recipe()).parameters;
  const double alone = norm_difference(run_alone(recipe).parameters, exact);
  CHECK(alone > 0);
  CHECK(norm_difference(finished_run(merged(recipe, kTwo), 2).parameters, exact) <= 1.2 * alone);
}

TEST_CASE("a non-finite value of a part is reported with its rank, and skipped by all ranks",
          "[ranks][multi-rank][.release]") {
  json of_one = with_hook(R"({"type": "plant_at", "options": {
      "event": "before_step", "first_step": 4, "into": "parameters", "name": "up.weight",
      "rank": 1}})");
  of_one["train"]["non_finite"]["policy"] = "stop";
  const RanksRun stopped(merged(of_one, kTwo).dump(), 2);
  INFO(stopped.text());
  CHECK(stopped.text().find("step 4: the update is non-finite: rank 1: parameter 'up.weight' of "
                            "block 'feed' holds 48 non-finite values") != std::string::npos);

  const json of_all = with_hook(R"({"type": "plant_at", "options": {
      "event": "before_optimizer_step", "first_step": 11, "into": "gradients",
      "name": "up.weight", "full_parameters": true}})");
  const FinishedRun run = finished_run(merged(of_all, kTwo), 2);
  CHECK(largest_difference(run.parameters, run_alone(of_all).parameters) <= 1e-10);
  check_metrics(run, run_alone(of_all), 1e-10);
}

TEST_CASE("texts of divided blocks are those of one rank", "[ranks][multi-rank]") {
  const ScratchFolder folder;
  std::string text;
  for (int i = 0; i < 40; ++i) {
    text += "the quick brown fox. ";
  }
  json recipe = wide_recipe(R"({"model": {"options": {"vocab_size": 256}}, "eval": null})");
  recipe["data"] = {{"batch_size", 8}};
  recipe["data"]["train"] = {
      {"type", "text"},
      {"options", {{"path", folder.write("text.txt", text).string()}, {"sequence_length", 16}}}};
  recipe["hooks"].push_back(json::parse(R"({"type": "text_samples", "options": {
      "prompts": ["the q", "f"], "every_steps": 4, "max_tokens": 12}})"));
  const RanksRun alone(recipe.dump(), 1);
  const RanksRun run(merged(recipe, kTwo).dump(), 2);
  INFO(alone.text() << run.text());
  CHECK(run.exit_codes() == std::vector<int>{0, 0});
  CHECK(!run.file("text_samples.jsonl").empty());
  CHECK(run.file("text_samples.jsonl") == alone.file("text_samples.jsonl"));
}

TEST_CASE("a model with tables is refused where ranks divide blocks", "[ranks][multi-rank]") {
  const json recipe = merged(merged(mesh_recipe("untied"), kTwo), R"({
      "model": {"options": {"memory": {"columns": ["n.0", "n.1"], "dim": 8, "layers": [0, 1]}}},
      "features": [{"name": "n", "from": "input_ids", "do": [{"type": "ngram"}]}],
      "tables": {"*": {"optimizer": {"type": "adagrad", "options": {"lr": 0.1}}}}})");
  const RanksRun run(recipe.dump(), 2);
  INFO(run.text());
  CHECK(run.text().find("[recipe.not_available] /parallel/tensor 2: model \"llama\"") !=
        std::string::npos);
  CHECK(run.exit_codes() == std::vector<int>(2, 3));
}

}  // namespace tenon
