// SPDX-License-Identifier: Apache-2.0
//
// Ranks of a tensor group that have pieces of the positions between blocks
// (parallel.sequence_parallel): the metrics and the parameters of one rank, over kinds of blocks,
// data, losses and meshes.
#include <deque>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/ranks/finished_run.hpp"
#include "tests/ranks/mesh_kinds.hpp"
#include "tests/ranks/mesh_recipes.hpp"
#include "tests/recipes/host_run.hpp"
#include "tests/recipes/ranks_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/members.hpp"

namespace tenon {
namespace {

using nlohmann::json;

// Sequences of 1 to 16 tokens, with labels that losses ignore.
json sequences_of(const std::string& model, const std::string& patch = "{}") {
  json recipe = short_recipe(model, R"({"data": {"batch_size": 4}, "eval": null})");
  recipe["data"].erase("eval");
  recipe["data"]["train"] =
      json::parse(R"({"type": "token_sequences", "options": {"samples": 60, "ignored": true}})");
  return merged(recipe, patch);
}

std::vector<Kind> blocks() {
  return {
      {"an odd number of positions",
       short_recipe("divided_lm"),
       2,
       R"({"parallel": {"tensor": 2}})"},
      {"fewer heads of keys than ranks",
       short_recipe("divided_lm"),
       4,
       R"({"train": {"recompute": "blocks"}, "parallel": {"tensor": 4}})"},
      {"blocks in C", short_recipe("divided_c"), 2, R"({"parallel": {"tensor": 2}})"},
      {"blocks that declare nothing", short_recipe("module"), 2, R"({"parallel": {"tensor": 2}})"},
      {"blocks that the degree does not divide",
       short_recipe("divided_lm"),
       3,
       R"({"parallel": {"tensor": 3, "undeclared": "whole"}})"},
      {"a decoder, by tiles and chunks",
       short_recipe("tied"),
       2,
       R"({"train": {"tile": 2, "loss_chunk": 3}, "parallel": {"tensor": 2}})"},
      {"learned positions", gpt2_recipe(), 2, R"({"parallel": {"tensor": 2}})"},
      {"experts, balanced by biases and losses",
       short_recipe("experts"),
       2,
       R"({"train": {"recompute": "blocks"}, "parallel": {"tensor": 2}})"},
      {"an adapter",
       short_recipe("untied", R"({"model": {"frozen": ["*"], "parametrizations": [
           {"match": ["*.q_proj.weight", "*.up_proj.weight"], "type": "lora",
            "options": {"rank": 4, "alpha": 8}}]}})"),
       2,
       R"({"parallel": {"tensor": 2}})"},
      {"a hook that reads outputs",
       short_recipe("divided_lm", R"({"hooks": [{"type": "keep_parameters"},
           {"type": "output_sums", "options": {"outputs": ["logits", "scores", "z"]}}]})"),
       2,
       R"({"train": {"recompute": "blocks"}, "parallel": {"tensor": 2}})"},
  };
}

std::vector<Kind> meshes() {
  return {
      {"with shards",
       short_recipe("divided_lm"),
       4,
       R"({"data": {"batch_size": 4}, "parallel": {"tensor": 2, "stage": 3}})"},
      {"with replicas",
       short_recipe("divided_lm"),
       4,
       R"({"data": {"batch_size": 4}, "train": {"tile": 1, "loss_chunk": 2},
           "parallel": {"tensor": 2, "replicate": 2, "shard": 1}})"},
      {"with parts", short_recipe("divided_lm"), 4, R"({"parallel": {"tensor": 2, "context": 2}})"},
      {"with parts, of a decoder",
       gpt2_recipe(),
       4,
       R"({"train": {"recompute": "blocks"}, "parallel": {"tensor": 2, "context": 2}})"},
      {"with parts, of experts",
       short_recipe("experts"),
       4,
       R"({"parallel": {"tensor": 2, "context": 2}})"},
      {"with parts, of blocks that run on whole sequences",
       short_recipe("module"),
       4,
       R"({"parallel": {"tensor": 2, "context": 2, "undeclared": "whole"}})"},
  };
}

std::vector<Kind> sequences() {
  return {
      {"fewer positions than ranks",
       sequences_of("divided_lm", R"({"data": {"batch_size": 1}})"),
       4,
       R"({"parallel": {"tensor": 4}})"},
      {"documents in rows",
       sequences_of("untied", R"({"model": {"options": {"max_position_embeddings": 32}},
           "data": {"batch_size": 2, "train": {"packing": {"length": 23, "group": 32}}},
           "train": {"global_batch_size": null, "global_batch_tokens": 92}})"),
       2,
       R"({"parallel": {"tensor": 2}})"},
      {"smoothing",
       short_recipe("tied", R"({"loss": {"options": {"label_smoothing": 0.1, "z_loss": 0.01}}})"),
       2,
       R"({"parallel": {"tensor": 2}})"},
  };
}

void check_pieces(std::vector<Kind> all, size_t few) {
  std::deque<std::string> patches;
  for (Kind& kind : all) {
    json patch = json::parse(kind.patch);
    patch["parallel"]["sequence_parallel"] = true;
    kind.patch = patches.emplace_back(patch.dump()).c_str();
    if (kind.recipe.contains("eval")) {
      kind.recipe["metrics"] = json::array({{{"type", "accuracy"}}});
    }
  }
  check_kinds(std::move(all), few);
}

}  // namespace

TEST_CASE("blocks on pieces of the positions are those of one rank",
          "[ranks][multi-rank][members]") {
  check_pieces(blocks(), 3);
}

TEST_CASE("meshes of ranks with pieces of the positions are one rank",
          "[ranks][multi-rank][members]") {
  check_pieces(meshes(), 1);
}

TEST_CASE("sequences and losses on pieces of the positions are those of one rank",
          "[ranks][multi-rank][members]") {
  check_pieces(sequences(), 1);
}

TEST_CASE("pieces of the positions without ranks or positions are refused before the first step",
          "[ranks][multi-rank]") {
  struct Refused {
    json recipe;
    const char* message;
  };
  for (const Refused& one :
       {Refused{short_recipe("divided_lm", R"({"parallel": {"sequence_parallel": true}})"),
                "parallel/sequence_parallel"},
        Refused{merged(json::parse(small_recipe()),
                       R"({"parallel": {"tensor": 2, "sequence_parallel": true}})"),
                "[data.no_positions] /parallel/sequence_parallel divides the positions of "
                "sequences, and no field of "}}) {
    const RanksRun run(one.recipe.dump(), 2);
    INFO(one.message << "\n" << run.text());
    CHECK(run.text().find(one.message) != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(run.run_dir() / "metrics.jsonl"));
  }
}

}  // namespace tenon
