// SPDX-License-Identifier: Apache-2.0
//
// Optimizers whose state is no tensor like the parameter, or who update whole matrices: one rank is
// two ranks at each stage of sharding.
#include <string>
#include <utility>
#include <vector>

#include "tests/ranks/finished_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

nlohmann::json recipe_with(const std::string& optimizer, const std::string& patch = "{}") {
  nlohmann::json recipe = nlohmann::json::parse(R"({
    "name": "ranks", "threads": {"compute": 1},
    "model": {"type": "llama", "options": {
      "vocab_size": 16, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
      "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 8,
      "initializer_range": 0.3}},
    "data": {"batch_size": 4, "train": {"type": "token_rows", "options": {"samples": 61}},
             "eval": {"type": "token_rows", "options": {"samples": 21}}},
    "loss": {"type": "cross_entropy"},
    "hooks": [{"type": "keep_parameters"}],
    "train": {"steps": 20, "global_batch_size": 8, "precision": "fp64", "log_every": 1},
    "eval": {"every_steps": 7},
    "parallel": {"timeout_seconds": 30}
  })");
  recipe["optimizer"] = nlohmann::json::parse(optimizer);
  recipe.merge_patch(nlohmann::json::parse(patch));
  return recipe;
}

const char* const kOptimizers[] = {
    R"({"type": "muon", "options": {"lr": 0.02, "ns_dtype": "parameter"},
        "groups": [{"match": "*norm*", "type": "adamw", "lr": 0.01},
                   {"match": "*embed*", "type": "adamw8bit", "lr": 0.01}]})",
    R"({"type": "adamw8bit", "options": {"lr": 0.01, "block_size": 32}})",
    R"({"type": "schedule_free_adamw", "options": {"lr": 0.01, "weight_decay": 0.1}})",
    R"({"type": "lion", "options": {"lr": 0.001}})",
    R"({"type": "adafactor", "options": {"lr": 0.02}})"};

}  // namespace

TEST_CASE("two ranks update as one, with each optimizer and stage", "[ranks]") {
  for (const char* const optimizer : kOptimizers) {
    CAPTURE(optimizer);
    const FinishedRun want = finished_run(recipe_with(optimizer), 1);
    for (const char* const patch : {R"({"parallel": {"shard": 1, "replicate": -1}})",
                                    R"({"parallel": {"stage": 1}})",
                                    R"({"parallel": {"stage": 3}})"}) {
      CAPTURE(patch);
      const FinishedRun found = finished_run(recipe_with(optimizer, patch), 2);
      check_metrics(found, want, 1e-9);
      CHECK(largest_difference(found.parameters, want.parameters) <= 1e-9);
    }
  }
}

}  // namespace tenon
