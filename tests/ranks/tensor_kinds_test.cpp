// SPDX-License-Identifier: Apache-2.0
//
// Ranks that divide the parameters of blocks, over kinds of optimizers, hooks and runs: each equals
// one rank, also across a stop after which other ranks divide them otherwise.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/ranks/finished_run.hpp"
#include "tests/ranks/mesh_recipes.hpp"
#include "tests/ranks/relay.hpp"
#include "tests/recipes/ranks_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/members.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

using nlohmann::json;

struct Kind {
  const char* name;
  json recipe;
  uint32_t num_ranks;
  const char* patch;
};

constexpr char kTwo[] = R"({"parallel": {"tensor": 2}})";
constexpr char kHalves[] = R"({"data": {"batch_size": 4}, "parallel": {"tensor": 2}})";

// 12 steps, so that there is a step with idle ranks.
json short_recipe(const std::string& patch = "{}") {
  return merged(merged(mesh_base_recipe(), R"({"model": {"type": "divided_lm"},
                    "train": {"steps": 12}, "eval": {"every_steps": 6}})"),
                patch);
}

// The same with as many heads of keys as of queries: a rank stores a part of each matrix.
json wide_recipe(const std::string& patch = "{}") {
  return merged(short_recipe(R"({"model": {"options": {"key_heads": 4}}})"), patch);
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

std::vector<Kind> optimizers() {
  const std::string muon = R"({"type": "muon", "options": {"lr": 0.02}, "groups": [
      {"match": "*norm*", "type": "adamw", "lr": 0.01},
      {"match": "*.bias", "type": "adamw", "lr": 0.01},
      {"match": "scale", "type": "adamw", "lr": 0.01}]})";
  const std::string eight = R"({"type": "adamw8bit", "options": {"lr": 0.002, "block_size": )";
  return {
      {"matrices", with_optimizer(short_recipe(), muon), 2, kTwo},
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
       short_recipe(R"({"eval": {"every_steps": 3,
                        "keep_best": {"metric": "eval/loss", "mode": "max"}}})"),
       2,
       kTwo},
      {"one batch again and again", short_recipe(R"({"train": {"overfit_batch": true}})"), 2, kTwo},
      {"each microbatch weighs the same",
       short_recipe(R"({"data": {"batch_size": 4}, "train": {"normalize": "microbatch"}})"),
       2,
       kTwo},
      {"activations on disk",
       short_recipe(),
       2,
       R"({"train": {"recompute": "blocks", "offload_activations": "disk"},
           "parallel": {"tensor": 2}})"},
      {"parameters in host memory",
       wide_recipe(),
       4,
       R"({"data": {"batch_size": 4}, "parallel": {"tensor": 2, "offload": true, "stage": 2}})"},
      {"replicas that are compared",
       short_recipe(),
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

void check_kinds(std::vector<Kind> all, size_t few) {
  for (const Kind& kind : members_of(std::move(all), few)) {
    INFO(kind.name << ", " << kind.num_ranks << " ranks, " << kind.patch);
    const FinishedRun run = finished_run(merged(kind.recipe, kind.patch), kind.num_ranks);
    const FinishedRun& alone = run_alone(kind.recipe);
    CHECK(largest_difference(run.parameters, alone.parameters) <= 1e-10);
    check_metrics(run, alone, 1e-10);
  }
}

}  // namespace

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
  for (const json& recipe : {short_recipe(), wide_recipe()}) {
    INFO(recipe["model"]);
    const FinishedRun run = relay(recipe, legs);
    CHECK(largest_difference(run.parameters, run_alone(recipe).parameters) <= 1e-10);
    check_metrics(run, run_alone(recipe), 1e-10);
  }
}

TEST_CASE("a run on divided blocks resumes to the bit", "[ranks][multi-rank][.release]") {
  for (const json& recipe : {wide_recipe(R"({"train": {"precision": "fp32"}})"),
                             short_recipe(R"({"train": {"overfit_batch": true}})")}) {
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
  const json recipe = short_recipe(R"({"train": {"precision": "bf16_autocast"}})");
  const NamedValues exact = run_alone(short_recipe()).parameters;
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
