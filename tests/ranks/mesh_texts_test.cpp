// SPDX-License-Identifier: Apache-2.0
//
// Texts that a decoder writes during training, with caches: those of one rank, on ranks that divide
// its blocks, its layers, or both.
#include <string>
#include <vector>

#include "tests/ranks/mesh_recipes.hpp"
#include "tests/recipes/ranks_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/members.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

using nlohmann::json;

json writing_recipe(const std::string& text) {
  json recipe = json::parse(R"({
    "name": "texts", "threads": {"compute": 1},
    "model": {"type": "llama", "options": {"vocab_size": 256, "hidden_size": 32,
        "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 64, "tie_word_embeddings": true}},
    "data": {"batch_size": 4, "train": {"type": "text", "options": {
        "sequence_length": 32, "stride": 7}}},
    "loss": {"type": "cross_entropy"},
    "optimizer": {"type": "adamw", "options": {"lr": 0.01}},
    "hooks": [{"type": "text_samples", "options": {
        "prompts": ["the quick br", "f"], "every_steps": 10, "max_tokens": 16}}],
    "train": {"steps": 20, "global_batch_size": 8, "precision": "fp64"},
    "parallel": {"timeout_seconds": 30}
  })");
  recipe["data"]["train"]["options"]["path"] = text;
  return recipe;
}

struct Mesh {
  uint32_t num_ranks;
  const char* patch;
};

}  // namespace

TEST_CASE("texts during training are those of one rank on each mesh",
          "[ranks][multi-rank][members]") {
  const ScratchFolder folder;
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    lines += "the quick brown fox. ";
  }
  const json recipe = writing_recipe(folder.write("text.txt", lines).string());
  const RanksRun alone(recipe.dump(), 1);
  INFO(alone.text());
  REQUIRE(!alone.file("text_samples.jsonl").empty());
  for (const Mesh& mesh : members_of(
           std::vector<Mesh>{
               {2, R"({"parallel": {"pipeline": 2}})"},
               {2, R"({"parallel": {"tensor": 2, "sequence_parallel": true}})"},
               {2,
                R"({"parallel": {"pipeline": 2, "schedule": "zb-v"}, "data": {"batch_size": 2}})"},
               {3, R"({"parallel": {"pipeline": 3}})"},
               {4, R"({"parallel": {"pipeline": 2, "tensor": 2}})"},
               {4, R"({"parallel": {"pipeline": 2, "shard": 2}, "data": {"batch_size": 2}})"},
           },
           2)) {
    INFO(mesh.num_ranks << " ranks, " << mesh.patch);
    const RanksRun run(merged(recipe, mesh.patch).dump(), mesh.num_ranks);
    INFO(run.text());
    CHECK(run.file("text_samples.jsonl") == alone.file("text_samples.jsonl"));
  }
}

}  // namespace tenon
