// SPDX-License-Identifier: Apache-2.0
//
// Ranks that have the stages of a model, over kinds of hooks, optimizers, losses and runs: each
// equals one rank to the bit, also across a stop.
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/ranks/finished_run.hpp"
#include "tests/ranks/mesh_kinds.hpp"
#include "tests/ranks/mesh_recipes.hpp"
#include "tests/ranks/relay.hpp"
#include "tests/recipes/ranks_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/members.hpp"

namespace tenon {
namespace {

using nlohmann::json;

constexpr char kTwo[] = R"({"parallel": {"pipeline": 2}})";
constexpr char kAllForwardsFirst[] = R"({"parallel": {"pipeline": 2, "schedule": "gpipe"}})";
// Rank 0 has the first and the last stage.
constexpr char kV[] = R"({"parallel": {"pipeline": 2, "schedule": "zb-v"}})";

// Four microbatches of two samples, in 12 steps. Four layers.
json staged_recipe(const std::string& patch = "{}") {
  return merged(short_recipe("untied", R"({"model": {"options": {"num_hidden_layers": 4}},
                                           "data": {"batch_size": 2}})"),
                patch);
}

json with_optimizer(const std::string& optimizer) {
  json recipe = staged_recipe(R"({"train": {"clip_grad_value": null, "clip_grad_norm": 0.5}})");
  recipe["optimizer"] = json::parse(optimizer);
  return recipe;
}

json with_hook(const std::string& hook, const std::string& patch = "{}") {
  json recipe = staged_recipe(patch);
  recipe["hooks"].push_back(json::parse(hook));
  return recipe;
}

std::vector<Kind> optimizers() {
  return {
      {"matrices, and blocks of eight bits",
       with_optimizer(R"({"type": "muon", "options": {"lr": 0.02}, "groups": [
           {"match": "*norm*", "type": "adamw", "lr": 0.01},
           {"match": "*embed*", "type": "adamw8bit", "lr": 0.01}]})"),
       2,
       kTwo},
      {"factors of matrices",
       with_optimizer(R"({"type": "adafactor", "options": {"lr": 0.01}})"),
       2,
       kTwo},
      {"no schedule",
       merged(with_optimizer(R"({"type": "schedule_free_adamw", "options": {"lr": 0.02}})"),
              R"({"lr_scheduler": null})"),
       2,
       kV},
      {"signs", with_optimizer(R"({"type": "lion", "options": {"lr": 0.001}})"), 2, kTwo},
  };
}

std::vector<Kind> hooks() {
  const std::string plant = R"({"type": "plant_at", "options": {
      "first_step": 3, "last_step": 4, "waves": true, "full_parameters": true, )";
  return {
      {"averages", with_hook(R"({"type": "ema", "options": {"decay": 0.8}})"), 2, kTwo},
      {"whole gradients are written",
       with_hook(plant + R"("event": "before_optimizer_step", "into": "gradients"}})"),
       2,
       kTwo},
      {"whole parameters are written",
       with_hook(plant + R"("event": "after_step", "into": "parameters"}})"),
       2,
       kV},
      {"outputs of the last stage are read",
       with_hook(R"({"type": "output_sums", "options": {"outputs": ["logits"]}})"),
       2,
       kV},
      {"an update is skipped",
       with_hook(R"({"type": "plant_at", "options": {
           "event": "before_optimizer_step", "first_step": 11, "into": "gradients",
           "name": "lm_head.weight", "full_parameters": true}})"),
       2,
       kTwo},
      {"an evaluation is requested",
       with_hook(R"({"type": "request_at", "options": {
           "requests": [{"event": "after_step", "step": 4, "request": "evaluate"}]}})"),
       2,
       kTwo},
      {"a roll back",
       with_hook(R"({"type": "request_at", "options": {"times": 1,
           "requests": [{"event": "after_step", "step": 8, "request": "roll_back"}]}})",
                 R"({"checkpoint": {"every_steps": 3, "on_spike": "roll_back"}})"),
       2,
       kTwo},
  };
}

std::vector<Kind> runs() {
  const std::string distill = R"({"type": "distill", "options": {"type": "forward_kl"}})";
  return {
      {"metrics of the last stage",
       staged_recipe(R"({"metrics": [{"type": "accuracy"}, {"type": "perplexity"}],
                         "train": {"log_every": 3}})"),
       2,
       kTwo},
      {"the best state",
       staged_recipe(R"({"eval": {"every_steps": 3,
                                  "keep_best": {"metric": "eval/loss", "mode": "max"}}})"),
       2,
       kTwo},
      {"one batch again and again",
       staged_recipe(R"({"train": {"overfit_batch": true}})"),
       2,
       kAllForwardsFirst},
      {"each microbatch weighs the same",
       staged_recipe(R"({"train": {"normalize": "microbatch"}})"),
       2,
       kTwo},
      {"smoothing",
       staged_recipe(R"({"loss": {"options": {"label_smoothing": 0.1, "z_loss": 0.01}}})"),
       2,
       kV},
      {"distillation by chunks",
       merged(pair_recipe(distill), R"({"train": {"loss_chunk": 3}})"),
       2,
       kTwo},
      {"activations on disk",
       staged_recipe(),
       2,
       R"({"train": {"recompute": "blocks", "offload_activations": "disk"},
           "parallel": {"pipeline": 2}})"},
      {"a narrow precision", staged_recipe(R"({"train": {"precision": "bf16"}})"), 2, kTwo},
  };
}

std::vector<Kind> sharded_runs() {
  return {
      {"parameters in host memory",
       staged_recipe(),
       4,
       R"({"parallel": {"pipeline": 2, "offload": true, "stage": 2}})"},
      {"replicas that are compared",
       staged_recipe(),
       4,
       R"({"parallel": {"pipeline": 2, "shard": 1, "replicate": 2, "check_replicas_every": 2,
                        "check_collectives": true}})"},
      {"a block that each rank keeps whole",
       staged_recipe(),
       4,
       R"({"parallel": {"pipeline": 2, "unsharded": ["embed*"]}})"},
      {"small buckets",
       staged_recipe(),
       4,
       R"({"parallel": {"pipeline": 2, "shard": 1, "replicate": 2, "bucket_bytes": 100}})"},
      {"averages of shards",
       with_hook(R"({"type": "ema", "options": {"decay": 0.8}})"),
       4,
       R"({"parallel": {"pipeline": 2, "stage": 3}})"},
      {"matrices on shards",
       with_optimizer(R"({"type": "muon", "options": {"lr": 0.02}, "groups": [
           {"match": "*norm*", "type": "adamw", "lr": 0.01}]})"),
       4,
       R"({"parallel": {"pipeline": 2, "stage": 2}})"},
  };
}

// The events of a rank from its table: a letter and a microbatch for each action, F the forward of
// its first stage, L the backward of its last stage, B that of its first one.
std::string events_of(int step, const std::string& table) {
  std::istringstream actions(table);
  std::string events;
  for (std::string action; actions >> action;) {
    const auto add = [&](const char* name) {
      events += std::to_string(step) + " " + name + " " + action.substr(1) + "\n";
    };
    if (action[0] == 'F') {
      add("after_data");
      add("before_forward");
    } else if (action[0] == 'L') {
      add("after_forward");
      add("before_loss");
      add("after_loss");
      add("before_backward");
    } else {
      add("after_backward");
    }
  }
  return events;
}

}  // namespace

TEST_CASE("optimizers on stages are those of one rank, to the bit",
          "[ranks][multi-rank][members]") {
  check_kinds(optimizers(), 1, 0);
}

TEST_CASE("hooks on stages are those of one rank, to the bit", "[ranks][multi-rank][members]") {
  check_kinds(hooks(), 2, 0);
}

TEST_CASE("runs on stages are those of one rank, to the bit", "[ranks][multi-rank][members]") {
  check_kinds(runs(), 2, 0);
}

TEST_CASE("sharded runs on stages are those of one rank", "[ranks][multi-rank][members]") {
  check_kinds(sharded_runs(), 1);
}

TEST_CASE("hooks get each event of a microbatch once on each rank, in the table's order",
          "[ranks][multi-rank]") {
  struct Traced {
    const char* patch;
    const char* tables[2];
  };
  const Traced all[] = {
      {kTwo, {"F0 F1 L0 B0 F2 L1 B1 F3 L2 B2 L3 B3", "F0 L0 B0 F1 L1 B1 F2 L2 B2 F3 L3 B3"}},
      {kAllForwardsFirst,
       {"F0 F1 F2 F3 L0 B0 L1 B1 L2 B2 L3 B3", "F0 F1 F2 F3 L0 B0 L1 B1 L2 B2 L3 B3"}},
      // tenon schedule zb-v --ranks 2 --microbatches 4 --csv, without the forwards of last stages.
      {kV, {"F0 F1 F2 L0 L1 F3 B0 L2 B1 L3 B2 B3", "F0 F1 L0 F2 B0 L1 F3 B1 L2 B2 L3 B3"}},
  };
  for (const Traced& one : all) {
    INFO(one.patch);
    const json recipe = with_hook(R"({"type": "rank_trace"})", R"({"train": {"steps": 2}})");
    const RanksRun run(merged(recipe, one.patch).dump(), 2);
    INFO(run.text());
    REQUIRE(run.exit_codes() == std::vector<int>(2, 0));
    for (const int rank : {0, 1}) {
      CAPTURE(rank);
      CHECK(run.file("trace-" + std::to_string(rank) + ".txt") ==
            events_of(1, one.tables[rank]) + events_of(2, one.tables[rank]));
    }
  }
}

TEST_CASE("a hook finds the outputs of the stages of its rank", "[ranks][multi-rank]") {
  const json recipe = merged(short_recipe("module"), R"({"hooks": [
      {"type": "read_outputs", "options": {"outputs": ["x", "fixed", "h", "logits"]}}]})");
  for (const auto& [stage_starts, want] :
       {std::pair{"rare", "x yes\nfixed yes\nh no\nlogits no\n"},
        std::pair{"head", "x yes\nfixed yes\nh yes\nlogits no\n"}}) {
    json divided = recipe;
    divided["parallel"].merge_patch(json{{"pipeline", 2}, {"stage_starts", {stage_starts}}});
    const RanksRun run(divided.dump(), 2);
    INFO(run.text());
    REQUIRE(run.exit_codes() == std::vector<int>(2, 0));
    CHECK(run.file("outputs.txt") == want);
  }
}

TEST_CASE("a run on stages resumes to the bit", "[ranks][multi-rank]") {
  for (const std::string& parallel :
       members_of(std::vector<std::string>{kV,
                                           kTwo,
                                           R"({"parallel": {"pipeline": 2, "shard": 2, "stage": 3},
                          "data": {"batch_size": 1}})"},
                  1)) {
    INFO(parallel);
    const uint32_t num_ranks = json::parse(parallel).contains("data") ? 4 : 2;
    const json recipe =
        merged(with_hook(R"({"type": "ema", "options": {"decay": 0.8}})",
                         R"({"train": {"precision": "fp32"}, "metrics": [{"type": "accuracy"}]})"),
               parallel);
    const FinishedRun run = relay(recipe, {{num_ranks, "{}", 5}, {num_ranks, "{}", 12}});
    const FinishedRun whole = finished_run(recipe, num_ranks);
    CHECK(run.parameters == whole.parameters);
    CHECK(run.parameters_hash == whole.parameters_hash);
    CHECK(run.metrics == whole.metrics);
    CHECK(run.samples == whole.samples);
  }
}

}  // namespace tenon
