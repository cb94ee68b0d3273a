// SPDX-License-Identifier: Apache-2.0
//
// All meshes of replicate x shard x tensor x context x pipeline with 8 ranks: each trains as one
// rank does. Kinds of models and features of a run are paired with the meshes, not multiplied.
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "tests/ranks/finished_run.hpp"
#include "tests/ranks/mesh_recipes.hpp"
#include "tests/ranks/meshes.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/members.hpp"

namespace tenon {
namespace {

using nlohmann::json;

constexpr uint32_t kNumRanks = 8;

// 12 steps, so that there is a step with idle ranks.
json few_steps(const std::string& model, const std::string& patch = "{}") {
  json recipe = merged(mesh_recipe(model),
                       R"({"train": {"steps": 12}, "eval": {"every_steps": 6},
                           "metrics": [{"type": "accuracy"}]})");
  return merged(recipe, patch);
}

// The llama of mesh_recipe() with a tied head. Four heads share the keys of one.
json llama_recipe(const std::string& patch = "{}") {
  return merged(few_steps("tied", R"({"model": {"options": {"num_attention_heads": 4}}})"), patch);
}

// The same with 8 heads of queries and 2 of keys.
json wide_llama_recipe() {
  return llama_recipe(R"({"model": {"options": {
      "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 4}}})");
}

json olmo2_recipe(const std::string& patch = "{}") {
  json recipe = llama_recipe(R"({"model": {"type": "olmo2"}})");
  recipe["model"]["options"].erase("tie_word_embeddings");
  return merged(recipe, patch);
}

json experts_recipe(const std::string& patch = "{}") {
  return merged(few_steps("experts", R"({"model": {"options": {"num_attention_heads": 4}}})"),
                patch);
}

// Adapters of products whose base is divided by outputs, and by inputs.
json adapters_recipe() {
  return olmo2_recipe(R"({"model": {"frozen": ["*"], "parametrizations": [
      {"match": ["*.q_proj.weight", "*.o_proj.weight", "*.up_proj.weight", "*.down_proj.weight"],
       "type": "lora", "options": {"rank": 4, "alpha": 8}}]}})");
}

json with_length(json recipe, int length) {
  recipe["data"]["train"]["options"]["length"] = length;
  recipe["data"]["eval"]["options"]["length"] = length;
  return recipe;
}

// With more layers, so that there are as many units as stages.
json with_layers(json recipe, int layers) {
  recipe["model"]["options"]["num_hidden_layers"] = layers;
  return recipe;
}

struct Case {
  Mesh mesh;
  const char* name;
  json recipe;
  // What only the run on the mesh has.
  const char* patch;
  // Largest difference of a parameter. Stages alone change no bit, with the same microbatches.
  double bound = 1e-10;
};

std::vector<Case> cases() {
  const std::string preference = R"({"type": "preference"})";
  return {
      {{1, 2, 2, 2},
       "documents in rows, accumulated",
       packed_recipe(),
       R"({"data": {"batch_size": 1}, "train": {"recompute": "blocks"}, "parallel": {"stage": 3}})"},
      {{1, 1, 4, 2},
       "experts, 7 positions",
       with_length(experts_recipe(), 7),
       R"({"data": {"batch_size": 8}})"},
      {{2, 1, 4, 1}, "adapters", adapters_recipe(), R"({"data": {"batch_size": 2}})"},
      {{1, 2, 4, 1}, "preferences", pair_recipe(preference), R"({"data": {"batch_size": 1}})"},
      {{8, 1, 1, 1},
       "a tied head, small buckets",
       llama_recipe(),
       R"({"data": {"batch_size": 1}, "parallel": {"bucket_bytes": 1000}})"},
      {{4, 2, 1, 1},
       "norms after blocks, stage 1",
       olmo2_recipe(),
       R"({"data": {"batch_size": 1}, "parallel": {"stage": 1}})"},
      {{4, 1, 2, 1}, "a block in C", few_steps("divided_c"), R"({"data": {"batch_size": 2}})"},
      {{4, 1, 1, 2}, "documents in rows", packed_recipe(), R"({"data": {"batch_size": 1}})"},
      {{2, 4, 1, 1},
       "experts, stage 2",
       experts_recipe(),
       R"({"data": {"batch_size": 1}, "parallel": {"stage": 2}})"},
      {{2, 2, 2, 1},
       "a tied head, accumulated, stage 3",
       llama_recipe(),
       R"({"data": {"batch_size": 1}, "train": {"recompute": "blocks"}, "parallel": {"stage": 3}})"},
      {{2, 2, 1, 2},
       "a module that declares nothing, stage 2",
       few_steps("module"),
       R"({"data": {"batch_size": 2}, "parallel": {"stage": 2, "undeclared": "whole"}})"},
      {{2, 1, 2, 2},
       "experts",
       experts_recipe(),
       R"({"data": {"batch_size": 4}, "train": {"recompute": "blocks"}})"},
      {{2, 1, 1, 4},
       "fewer positions than ranks",
       with_length(llama_recipe(), 3),
       R"({"data": {"batch_size": 4}})"},
      {{1, 8, 1, 1},
       "a module, stage 3",
       few_steps("module"),
       R"({"data": {"batch_size": 1}, "parallel": {"stage": 3}})"},
      {{1, 4, 2, 1},
       "experts, accumulated, stage 3",
       experts_recipe(),
       R"({"data": {"batch_size": 1}, "parallel": {"stage": 3}})"},
      {{1, 4, 1, 2},
       "preferences, sharded",
       pair_recipe(preference),
       R"({"data": {"batch_size": 1}})"},
      {{1, 2, 1, 4},
       "a block in C, 7 positions, accumulated",
       with_length(few_steps("divided_c"), 7),
       R"({"data": {"batch_size": 2}})"},
      {{1, 1, 8, 1},
       "fewer heads of keys than ranks",
       wide_llama_recipe(),
       R"({"data": {"batch_size": 4}})"},
      {{1, 1, 2, 4},
       "norms over all heads, 3 positions",
       with_length(olmo2_recipe(), 3),
       R"({"data": {"batch_size": 8}, "train": {"loss_chunk": 2}})"},
      {{1, 1, 1, 8},
       "sequences of 1 to 16 tokens",
       sequences_recipe(),
       R"({"data": {"batch_size": 2}, "parallel": {"context_by": "gather"}})"},
      // Pipelines. Experts have one microbatch, because their loads are those of a step.
      {{4, 1, 1, 1, 2},
       "a tied head, all forwards first",
       llama_recipe(),
       R"({"data": {"batch_size": 1}, "parallel": {"schedule": "gpipe"}})"},
      {{1, 4, 1, 1, 2},
       "four stages on two ranks, stage 3",
       with_layers(few_steps("untied"), 4),
       R"({"data": {"batch_size": 1}, "train": {"recompute": "blocks"},
           "parallel": {"schedule": "zb-v", "stage": 3}})"},
      {{1, 1, 4, 1, 2},
       "four stages on two ranks, parts of positions between them",
       with_layers(olmo2_recipe(), 4),
       R"({"data": {"batch_size": 2},
           "parallel": {"schedule": "interleaved", "sequence_parallel": true}})"},
      {{1, 1, 1, 4, 2},
       "stages of sequences of 1 to 16 tokens",
       sequences_recipe(),
       R"({"data": {"batch_size": 4}, "parallel": {"context_by": "gather"}})"},
      {{2, 2, 1, 1, 2},
       "stages of experts, stage 2",
       experts_recipe(),
       R"({"data": {"batch_size": 2}, "parallel": {"stage": 2}})"},
      {{2, 1, 2, 1, 2}, "stages of adapters", adapters_recipe(), R"({"data": {"batch_size": 2}})"},
      {{1, 1, 1, 1, 8},
       "eight stages, more than microbatches",
       merged(with_layers(few_steps("untied"), 6), R"({"data": {"batch_size": 2}})"),
       "{}",
       0},
      // Again, with two stages on each rank.
      {{1, 1, 1, 1, 8},
       "sixteen stages",
       merged(with_layers(few_steps("untied"), 14), R"({"data": {"batch_size": 1}})"),
       R"({"parallel": {"schedule": "zb-v"}})",
       0},
      {{2, 1, 1, 2, 2},
       "stages of documents in rows",
       packed_recipe(),
       R"({"data": {"batch_size": 1}, "parallel": {"schedule": "gpipe"}})"},
      {{1, 2, 2, 1, 2},
       "stages of preferences",
       pair_recipe(preference),
       R"({"data": {"batch_size": 1}})"},
      {{1, 2, 1, 2, 2},
       "stages of a block in C, 7 positions",
       with_length(few_steps("divided_c"), 7),
       R"({"data": {"batch_size": 2}, "parallel": {"stage": 1}})"},
      {{1, 1, 2, 2, 2},
       "stages, 3 positions, chunks of the loss",
       with_length(with_layers(llama_recipe(), 4), 3),
       R"({"data": {"batch_size": 2}, "train": {"recompute": "blocks", "loss_chunk": 2},
           "parallel": {"schedule": "zb-v"}})"},
      {{2, 1, 1, 1, 4},
       "stages of a module that declares nothing",
       few_steps("module"),
       R"({"data": {"batch_size": 1}})"},
      {{1, 2, 1, 1, 4},
       "a tied head of eight stages on four ranks, stage 2",
       with_layers(llama_recipe(), 6),
       R"({"data": {"batch_size": 2}, "parallel": {"schedule": "interleaved", "stage": 2}})"},
      {{1, 1, 2, 1, 4},
       "four stages of experts",
       with_layers(experts_recipe(), 4),
       R"({"data": {"batch_size": 8}, "train": {"recompute": "blocks"}})"},
      {{1, 1, 1, 2, 4},
       "four stages, 1 position",
       with_length(with_layers(few_steps("untied"), 4), 1),
       R"({"data": {"batch_size": 2}})"},
  };
}

}  // namespace

TEST_CASE("each mesh of 8 ranks is one rank, to 1e-10 in fp64", "[ranks][multi-rank][members]") {
  for (const Case& one : members_of(cases(), 4)) {
    const json mesh = {{"parallel", parallel_of(one.mesh)}};
    INFO(one.name << ", " << mesh << ", " << one.patch);
    const json divided = merged(merged(one.recipe, mesh.dump()), one.patch);
    const FinishedRun run = finished_run(divided, kNumRanks);
    const FinishedRun& alone = run_alone(one.recipe);
    CHECK(largest_difference(run.parameters, alone.parameters) <= one.bound);
    check_metrics(run, alone, one.bound);
  }
}

TEST_CASE("the cases are all meshes of 8 ranks", "[ranks]") {
  const auto degrees = [](const Mesh& mesh) {
    return std::tuple(mesh.replicate, mesh.shard, mesh.tensor, mesh.context, mesh.pipeline);
  };
  const std::vector<Mesh> meshes = meshes_of(kNumRanks);
  CHECK(meshes.size() == 35);
  for (const Mesh& mesh : meshes) {
    INFO(parallel_of(mesh));
    bool is_tried = false;
    for (const Case& one : cases()) {
      is_tried = is_tried || degrees(one.mesh) == degrees(mesh);
    }
    CHECK(is_tried);
  }
}

}  // namespace tenon
