// SPDX-License-Identifier: Apache-2.0
//
// Ranks that have the stages of a model: the metrics and the parameters of one rank, to the bit,
// whatever the schedule and whatever else a step does; and what is refused before the first step.
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
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

using nlohmann::json;

// Four microbatches of two samples.
json accumulated(json recipe) {
  recipe["data"]["batch_size"] = 2;
  return recipe;
}

json deep_recipe(const std::string& model, const std::string& patch = "{}") {
  return merged(short_recipe(model, R"({"model": {"options": {"num_hidden_layers": 4}}})"), patch);
}

// A preference loss with a reference that is cut as well.
json preference_recipe() {
  return pair_recipe(R"({"type": "preference"})");
}

json adapter_recipe() {
  return short_recipe("untied", R"({"model": {"frozen": ["*"], "parametrizations": [
      {"match": ["*.q_proj.weight", "*.up_proj.weight"], "type": "lora",
       "options": {"rank": 4, "alpha": 8}}]}})");
}

struct StageKind {
  const char* name;
  json recipe;  // of one rank, too
  uint32_t num_ranks;
  const char* parallel;
};

std::vector<StageKind> to_the_bit() {
  return {
      {"two stages, one microbatch", short_recipe("untied"), 2, R"({"pipeline": 2})"},
      {"two stages, four microbatches",
       accumulated(short_recipe("untied")),
       2,
       R"({"pipeline": 2})"},
      {"gpipe", accumulated(short_recipe("untied")), 3, R"({"pipeline": 3, "schedule": "gpipe"})"},
      {"four stages on two ranks",
       accumulated(deep_recipe("untied")),
       2,
       R"({"pipeline": 2, "schedule": "interleaved"})"},
      {"a V of four stages",
       accumulated(deep_recipe("untied")),
       2,
       R"({"pipeline": 2, "schedule": "zb-v"})"},
      {"more stages than microbatches", deep_recipe("untied"), 4, R"({"pipeline": 4})"},
      {"stages by pattern",
       accumulated(deep_recipe("untied")),
       2,
       R"({"pipeline": 2, "stage_starts": ["*layers.3*"]})"},
      {"experts, balanced by biases and losses", short_recipe("experts"), 2, R"({"pipeline": 2})"},
      {"experts, balanced over four microbatches",
       accumulated(
           short_recipe("experts", R"({"model": {"options": {"first_k_dense_replace": 0}}})")),
       2,
       R"({"pipeline": 2, "schedule": "interleaved"})"},
      {"an adapter", accumulated(adapter_recipe()), 2, R"({"pipeline": 2})"},
      {"preferences", preference_recipe(), 2, R"({"pipeline": 2})"},
      {"recompute and chunks of losses",
       accumulated(
           short_recipe("untied", R"({"train": {"recompute": "blocks", "loss_chunk": 3}})")),
       2,
       R"({"pipeline": 2})"},
      {"a block in C", accumulated(short_recipe("divided_c")), 2, R"({"pipeline": 2})"},
      {"frozen parts", accumulated(short_recipe("frozen")), 2, R"({"pipeline": 2})"},
      {"documents in rows", packed_recipe(), 2, R"({"pipeline": 2})"},
  };
}

std::vector<Kind> with_other_dimensions() {
  return {
      {"with shards, stage 3",
       short_recipe("untied"),
       4,
       R"({"data": {"batch_size": 2},
           "parallel": {"pipeline": 2, "shard": 2, "stage": 3}})"},
      {"with replicas",
       short_recipe("untied"),
       4,
       R"({"data": {"batch_size": 2}, "train": {"recompute": "blocks"},
           "parallel": {"pipeline": 2, "replicate": 2, "shard": 1}})"},
      {"with shards of gradients",
       short_recipe("untied"),
       4,
       R"({"data": {"batch_size": 1},
           "parallel": {"pipeline": 2, "shard": 2, "stage": 2, "schedule": "gpipe"}})"},
      {"with tensor ranks",
       short_recipe("untied"),
       4,
       R"({"data": {"batch_size": 4},
           "parallel": {"pipeline": 2, "tensor": 2, "sequence_parallel": true,
                        "undeclared": "whole"}})"},
      {"a tied head",
       short_recipe("tied"),
       2,
       R"({"data": {"batch_size": 2}, "parallel": {"pipeline": 2}})"},
      {"a tied head of four stages on two ranks, sharded",
       deep_recipe("tied"),
       4,
       R"({"data": {"batch_size": 1},
           "parallel": {"pipeline": 2, "shard": 2, "schedule": "zb-v", "stage": 2}})"},
      {"a tied head with tensor ranks and recompute",
       short_recipe("tied"),
       4,
       R"({"data": {"batch_size": 2}, "train": {"recompute": "blocks", "loss_chunk": 3},
           "parallel": {"pipeline": 2, "tensor": 2}})"},
      {"a tied head and learned positions",
       gpt2_recipe(),
       4,
       R"({"data": {"batch_size": 2},
           "parallel": {"pipeline": 2, "shard": 2, "stage": 3, "schedule": "gpipe"}})"},
      {"with parts of sequences",
       short_recipe("untied"),
       4,
       R"({"data": {"batch_size": 4}, "parallel": {"pipeline": 2, "context": 2}})"},
  };
}

}  // namespace

TEST_CASE("stages are one rank, to the bit", "[ranks][multi-rank][members]") {
  for (const StageKind& kind : members_of(to_the_bit(), 4)) {
    INFO(kind.name << ", " << kind.num_ranks << " ranks, " << kind.parallel);
    const json patch = {{"parallel", json::parse(kind.parallel)}};
    const FinishedRun run = finished_run(merged(kind.recipe, patch.dump()), kind.num_ranks);
    const FinishedRun& alone = run_alone(kind.recipe);
    CHECK(run.parameters_hash == alone.parameters_hash);
    CHECK(largest_difference(run.parameters, alone.parameters) == 0);
    check_metrics(run, alone, 0);
  }
}

TEST_CASE("stages with other dimensions are one rank, to 1e-10 in fp64",
          "[ranks][multi-rank][members]") {
  check_kinds(with_other_dimensions(), 2);
}

TEST_CASE("a run continues with other stages", "[ranks][multi-rank]") {
  const json recipe = accumulated(deep_recipe("untied"));
  const FinishedRun run = relay(recipe,
                                {{1, "{}", 2},
                                 {2, R"({"parallel": {"pipeline": 2}})", 5},
                                 {4, R"({"parallel": {"pipeline": 4, "schedule": "gpipe"}})", 7},
                                 {2, R"({"parallel": {"shard": 2}, "data": {"batch_size": 1}})", 9},
                                 {2, R"({"parallel": {"pipeline": 2, "schedule": "zb-v"}})", 12}});
  CHECK(largest_difference(run.parameters, run_alone(recipe).parameters) <= 1e-10);
}

TEST_CASE("a table of a file is run, and one that deadlocks is refused", "[ranks][multi-rank]") {
  const json recipe = accumulated(short_recipe("untied"));
  const ScratchFolder folder;
  const auto table = folder.write(
      "table.csv", "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n1F0,1F1,1B0,1B1,1F2,1F3,1B2,1B3\n");
  json divided = recipe;
  divided["parallel"].merge_patch(json{{"pipeline", 2}, {"schedule", table.string()}});
  CHECK(finished_run(divided, 2).parameters_hash == run_alone(recipe).parameters_hash);

  const auto deadlock = folder.write(
      "deadlock.csv", "0F0,0B0,0F1,0F2,0F3,0B1,0B2,0B3\n1F0,1F1,1B0,1B1,1F2,1B2,1F3,1B3\n");
  divided["parallel"]["schedule"] = deadlock.string();
  const RanksRun run(divided.dump(), 2);
  INFO(run.text());
  CHECK(run.exit_codes() == std::vector<int>(2, 3));
  CHECK(run.text().find("deadlock: rank 0 waits at action 2 (0B0)") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(run.run_dir() / "metrics.jsonl"));
}

TEST_CASE("stages that cannot be made are refused before the first step", "[ranks][multi-rank]") {
  struct Refused {
    json recipe;
    const char* message;
  };
  for (const Refused& one : {
           Refused{merged(short_recipe("untied"),
                          R"({"parallel": {"pipeline": 2, "schedule": "interleaved",
                                           "stages_per_rank": 8}})"),
                   "[model.too_few_units]"},
           Refused{merged(short_recipe("untied"),
                          R"({"parallel": {"pipeline": 2, "stage_starts": ["nothing"]}})"),
                   "[model.bad_stages]"},
           Refused{
               merged(short_recipe("untied"), R"({"parallel": {"pipeline": 2, "schedule": "zb"}})"),
               "[schedule.invalid]"},
           Refused{merged(short_recipe("untied"), R"({"parallel": {"pipeline": 3}})"),
                   "[distributed.bad_mesh]"},
           Refused{merged(memory_recipe(), R"({"parallel": {"pipeline": 2}})"),
                   "[recipe.not_available] /parallel/pipeline 2"},
       }) {
    const RanksRun run(one.recipe.dump(), 2);
    INFO(one.message << "\n" << run.text());
    CHECK(run.text().find(one.message) != std::string::npos);
    CHECK(run.exit_codes() == std::vector<int>(2, 3));
    CHECK_FALSE(std::filesystem::exists(run.run_dir() / "metrics.jsonl"));
  }
}

}  // namespace tenon
