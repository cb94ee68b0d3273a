// SPDX-License-Identifier: Apache-2.0
//
// What --plan says against what runs of 1, 2 and 4 ranks send and hold.
#include <nlohmann/json.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

// A small llama, whose memory is mostly activations.
std::string recipe_of(const std::string& patch, int steps) {
  json recipe = json::parse(R"({
    "name": "planned",
    "model": {"type": "llama", "options": {"vocab_size": 256, "hidden_size": 64,
      "intermediate_size": 176, "num_hidden_layers": 3, "num_attention_heads": 4,
      "num_key_value_heads": 2}},
    "data": {"batch_size": 8, "train": {"type": "text", "options": {"sequence_length": 128,
      "tokenizer": {"type": "byte"}}}},
    "loss": {"type": "cross_entropy"},
    "optimizer": {"type": "adamw", "options": {"lr": 1e-3}},
    "train": {"clip_grad_norm": 1.0},
    "threads": {"compute": 1}
  })");
  recipe["data"]["train"]["options"]["path"] = (source_dir() / "data/kjv.txt").string();
  recipe["train"]["steps"] = steps;
  recipe.merge_patch(json::parse(patch));
  return recipe.dump(2);
}

json summary_of(const std::string& patch, int ranks, int steps) {
  const Words arguments = ranks > 1 ? Words{"--launch", std::to_string(ranks)} : Words{};
  const HostRun run(recipe_of(patch, steps), arguments);
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 0);
  return run.summary();
}

json plan_of(const std::string& patch, int ranks) {
  const ScratchFolder folder;
  const SubprocessResult result =
      run_subprocess({host_program().string(),
                      "--plan",
                      std::to_string(ranks),
                      "--json",
                      "--recipe",
                      folder.write("recipe.json", recipe_of(patch, 1)).string(),
                      "--plugin-dir",
                      plugin_dir().string()});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return json::parse(result.out)["plan"];
}

}  // namespace

TEST_CASE("ranks send in a step what was planned, and hold what was planned", "[ranks]") {
  const std::array cases = {
      std::pair(1, R"({})"),
      std::pair(1, R"({"train": {"recompute": "blocks"}})"),
      std::pair(1, R"({"train": {"recompute": "selective"}})"),
      std::pair(1, R"({"train": {"tile": 16}})"),
      std::pair(1, R"({"train": {"recompute": "blocks", "tile": 16, "loss_chunk": 16}})"),
      std::pair(1, R"({"train": {"recompute": "selective", "tile": 16, "loss_chunk": 16,
                                 "offload_activations": "disk"}})"),
      std::pair(1, R"({"train": {"precision": "bf16_autocast"}})"),
      std::pair(1, R"({"hooks": [{"type": "ema"}], "data": {"batch_size": 1}})"),
      std::pair(2, R"({"train": {"gradient_accumulation": 2}})"),
      std::pair(2, R"({"hooks": [{"type": "ema"}], "data": {"batch_size": 1},
                       "train": {"precision": "bf16_params"}})"),
      std::pair(2, R"({"train": {"recompute": "selective", "tile": 16, "loss_chunk": 16,
                                 "offload_activations": "disk"}})"),
      std::pair(2, R"({"parallel": {"stage": 1}, "train": {"gradient_accumulation": 2}})"),
      std::pair(2, R"({"parallel": {"stage": 2}, "train": {"precision": "bf16_params"}})"),
      std::pair(2, R"({"parallel": {"replicate": 2, "shard": 1, "gradient_dtype": "bf16"}})"),
      std::pair(2, R"({"parallel": {"reshard_after_forward": true, "unsharded": ["layers.1"]},
                       "model": {"options": {"tie_word_embeddings": true}}})"),
      std::pair(3, R"({"parallel": {"reshard_after_forward": false}})"),
      std::pair(4, R"({"parallel": {"replicate": 2}, "train": {"recompute": "blocks"}})"),
      std::pair(4, R"({"parallel": {"shard": 4}, "kernels": "plain"})")};
  for (const auto& [ranks, patch] : cases) {
    CAPTURE(ranks, patch);
    const json plan = plan_of(patch, ranks);
    // What stands before the first step and after the last one is in both.
    const json two = summary_of(patch, ranks, 2);
    const json four = summary_of(patch, ranks, 4);
    for (const char* const kind : {"all_gather", "reduce_scatter", "all_reduce"}) {
      CAPTURE(kind);
      const auto sent =
          four["sent_bytes"][kind].get<int64_t>() - two["sent_bytes"][kind].get<int64_t>();
      CHECK(plan["traffic"][kind]["sent"].get<int64_t>() * 2 == sent);
    }
    const auto peak = four["peak_tensor_bytes"].get<double>();
    if (peak > 0) {  // under sanitizers nothing counts
      const auto planned = plan["memory"]["sum"].get<double>();
      CAPTURE(planned, peak);
      CHECK(planned >= 0.9 * peak);
      CHECK(planned <= 1.1 * peak);
    }
  }
}

}  // namespace tenon
