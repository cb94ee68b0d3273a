// SPDX-License-Identifier: Apache-2.0
//
// train.loss_chunk: head and loss by pieces of a sequence, against the whole.
#include <cmath>
#include <fstream>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

// A small llama on the bytes of the license, in fp64 with all that a step may have.
std::string recipe_with(const std::string& patch, const std::string& tile) {
  std::ifstream file(source_dir() / "recipes" / "quickstart.json");
  nlohmann::json recipe = nlohmann::json::parse(file,
                                                nullptr,
                                                true,
                                                /*ignore_comments=*/true);
  recipe.merge_patch(nlohmann::json::parse(R"({
    "threads": {"compute": 1},
    "model": {"options": {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}},
    "data": {"batch_size": 3, "train": {"options": {"sequence_length": 50}},
             "eval": {"options": {"sequence_length": 50}}},
    "loss": {"options": {"ignore_index": 101, "z_loss": 0.01}},
    "train": {"steps": 4, "precision": "fp64", "gradient_accumulation": 2, "log_every": 1,
              "clip_grad_norm": 0.5},
    "eval": {"every_steps": 2, "batches": 2}})"));
  for (const char* set : {"train", "eval"}) {
    recipe["data"][set]["options"]["path"] = (source_dir() / "LICENSE").string();
  }
  recipe.merge_patch(nlohmann::json::parse(patch));
  recipe["train"]["loss_chunk"] = nlohmann::json::parse(tile);
  return recipe.dump();
}

void check_same_run(const std::string& patch) {
  const HostRun whole(recipe_with(patch, "null"));
  INFO(patch << whole.result().err);
  REQUIRE(whole.result().exit_code == 0);
  for (const char* tile : {"1", "7", "25", "50", "1000"}) {
    const HostRun tiled(recipe_with(patch, tile));
    INFO("tiles of " << tile << "\n" << tiled.result().err);
    REQUIRE(tiled.result().exit_code == 0);
    const auto expected = whole.metrics();
    const auto got = tiled.metrics();
    REQUIRE(got.size() == expected.size());
    int num_compared = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      for (const char* name : {"loss", "grad_norm", "eval/loss", "cross_entropy/z_loss"}) {
        REQUIRE(got[i].contains(name) == expected[i].contains(name));
        if (expected[i].contains(name)) {
          INFO("record " << i << ", " << name);
          CHECK(std::abs(got[i][name].get<double>() - expected[i][name].get<double>()) < 1e-10);
          ++num_compared;
        }
      }
    }
    CHECK(num_compared >= 4 * 3 + 2);
  }
}

std::string refusal_of(const std::string& recipe) {
  const HostRun run(recipe);
  INFO(run.result().err);
  CHECK(run.result().exit_code == 3);
  CHECK(run.result().err.find("[loss.cannot_tile]") != std::string::npos);
  return run.result().err;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("loss_chunk trains and evaluates as the whole does, to 1e-10 in fp64",
          "[recipes][.release]") {
  check_same_run("{}");
}

TEST_CASE("loss_chunk goes with tied weights, recompute and several losses",
          "[recipes][.release]") {
  check_same_run(R"({"model": {"options": {"tie_word_embeddings": true}},
                     "train": {"recompute": "blocks"}})");
  check_same_run(R"({"loss": null, "losses": [
    {"name": "sharp", "type": "cross_entropy", "options": {"ignore_index": 101, "z_loss": 0.01}},
    {"name": "smooth", "type": "cross_entropy", "weight": 0.5,
     "options": {"label_smoothing": 0.1}}]})");
}

TEST_CASE("loss_chunk goes with hooks of all events, and with hooks that read outputs",
          "[recipes]") {
  const HostRun traced(recipe_with(R"({"hooks": [{"type": "event_trace"}]})", "8"));
  INFO(traced.result().err);
  REQUIRE(traced.result().exit_code == 0);
  const HostRun plain(recipe_with("{}", "8"));
  CHECK(traced.summary()["parameters_hash"] == plain.summary()["parameters_hash"]);

  const std::string reads =
      R"({"hooks": [{"type": "read_outputs",
                     "options": {"outputs": ["hidden.1", "logits", "token_logps"]}}]})";
  const HostRun chunked(recipe_with(reads, "8"));
  INFO(chunked.result().err);
  REQUIRE(chunked.result().exit_code == 0);
  CHECK(chunked.file("outputs.txt") == "hidden.1 yes\nlogits no\ntoken_logps no\n");
  const HostRun whole(recipe_with(reads, "null"));
  INFO(whole.result().err);
  REQUIRE(whole.result().exit_code == 0);
  CHECK(whole.file("outputs.txt") == "hidden.1 yes\nlogits yes\ntoken_logps yes\n");
}

TEST_CASE("a hook that declares nothing reads the outputs that losses read", "[recipes]") {
  const HostRun run(recipe_with(R"({"hooks": [{"type": "read_outputs",
      "options": {"outputs": ["logits", "token_logps"], "declares": false}}]})",
                                "null"));
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 0);
  CHECK(run.file("outputs.txt") == "logits yes\ntoken_logps no\n");
}

TEST_CASE("loss_chunk is refused before the first step where pieces cannot be had", "[recipes]") {
  CHECK(has(refusal_of(small_recipe(R"({"train": {"loss_chunk": 4}})")),
            "the model's last block, 'mlp', cannot run on a part of a sequence"));
  CHECK(has(refusal_of(recipe_with(
                R"({"metrics": [{"type": "accuracy", "options": {"train": "step"}}]})", "8")),
            "a metric computed in training"));
}

}  // namespace tenon
