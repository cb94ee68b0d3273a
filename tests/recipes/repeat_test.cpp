// SPDX-License-Identifier: Apache-2.0
//
// Runs that must be equal to the bit.
#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// A llama with dropout on made text, small enough for a test.
std::string llama_recipe(const std::string& patch, const std::filesystem::path& text) {
  nlohmann::json recipe = nlohmann::json::parse(R"({
    "name": "tiny", "threads": {"compute": 2},
    "model": {"type": "llama", "options": {"vocab_size": 256, "hidden_size": 32, "intermediate_size": 48,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "dropout": 0.1}},
    "data": {"batch_size": 4, "train": {"type": "text", "options": {"sequence_length": 16}}},
    "loss": {"type": "cross_entropy"},
    "optimizer": {"type": "adamw", "options": {"lr": 0.003}},
    "lr_scheduler": {"type": "cosine", "options": {"warmup_steps": 2}},
    "train": {"steps": 8, "log_every": 1, "clip_grad_norm": 1.0, "gradient_accumulation": 2}
  })");
  recipe["data"]["train"]["options"]["path"] = text.string();
  recipe.merge_patch(nlohmann::json::parse(patch));
  return recipe.dump();
}

std::vector<nlohmann::json> train(const std::string& patch) {
  const ScratchFolder folder;
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    text += static_cast<char>('a' + (i * i + i / 7) % 26);
  }
  const HostRun run(llama_recipe(patch, folder.write("text.txt", text)));
  INFO(run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == 0);
  REQUIRE(run.metrics().size() == 8);
  return run.metrics();
}

}  // namespace

TEST_CASE("the same recipe gives the same bits, run after run", "[recipes]") {
  const auto first = train("{}");
  CHECK(first == train("{}"));
  CHECK(first != train(R"({"seed": 2})"));
}

TEST_CASE("recompute changes no bit, with dropout too", "[recipes]") {
  CHECK(train("{}") == train(R"({"train": {"recompute": "blocks"}})"));
}

TEST_CASE("the number of loader threads changes no bit", "[recipes]") {
  CHECK(train("{}") == train(R"({"data": {"loader_threads": 3, "prefetch": 1}})"));
}

TEST_CASE("the frozen recipe of a run gives the same run", "[recipes]") {
  const HostRun first(small_recipe());
  REQUIRE(first.result().exit_code == 0);
  const HostRun second(first.file("recipe.json"));
  INFO(second.result().err);
  REQUIRE(second.result().exit_code == 0);
  CHECK(first.metrics() == second.metrics());
  CHECK(first.file("recipe.json") == second.file("recipe.json"));
}

}  // namespace tenon
