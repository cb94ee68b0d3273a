// SPDX-License-Identifier: Apache-2.0
//
// Keys that save memory on long sequences, in whole runs: equal losses, lower peaks, refusals.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

std::string long_recipe(const std::string& patch) {
  nlohmann::json recipe = nlohmann::json::parse(R"({
    "name": "long",
    "model": {"type": "llama", "options": {"vocab_size": 256, "hidden_size": 32,
      "intermediate_size": 96, "num_hidden_layers": 8, "num_attention_heads": 4,
      "num_key_value_heads": 2}},
    "data": {"batch_size": 1, "train": {"type": "text", "options": {"sequence_length": 1024,
      "tokenizer": {"type": "byte"}}}},
    "loss": {"type": "cross_entropy"},
    "optimizer": {"type": "adamw", "options": {"lr": 1e-3}},
    "train": {"steps": 4, "gradient_accumulation": 2, "log_every": 1, "loss_chunk": 128,
              "clip_grad_norm": 1e9},
    "threads": {"compute": 1}
  })");
  recipe["data"]["train"]["options"]["path"] = (source_dir() / "LICENSE").string();
  recipe.merge_patch(nlohmann::json::parse(patch));
  return recipe.dump();
}

struct Result {
  std::vector<double> losses;
  double peak = 0;
};

Result result_of(const std::string& patch) {
  const HostRun run(long_recipe(patch));
  INFO(patch << run.result().err);
  REQUIRE(run.result().exit_code == 0);
  Result result;
  for (const nlohmann::json& record : run.metrics()) {
    if (record.contains("loss")) {
      result.losses.push_back(record["loss"].get<double>());
      result.losses.push_back(record["grad_norm"].get<double>());
    }
  }
  REQUIRE(result.losses.size() == 8);
  result.peak = run.summary()["peak_tensor_bytes"].get<double>();
  return result;
}

std::string refused(const std::string& patch, int exit_code = 3) {
  const HostRun run(long_recipe(patch));
  INFO(run.result().err);
  CHECK(run.result().exit_code == exit_code);
  return run.result().err;
}

}  // namespace

TEST_CASE("recompute, tiles and offload lower the peak and keep the losses",
          "[recipes][.release]") {
  const Result plain = result_of("{}");
  const Result blocks = result_of(R"({"train": {"recompute": "blocks"}})");
  const Result selective = result_of(R"({"train": {"recompute": "selective"}})");
  const Result disk =
      result_of(R"({"train": {"recompute": "blocks", "offload_activations": "disk"}})");
  CHECK(blocks.losses == plain.losses);
  CHECK(selective.losses == plain.losses);
  CHECK(disk.losses == plain.losses);
  const Result tiled = result_of(R"({"train": {"recompute": "blocks", "tile": 128}})");
  const Result all = result_of(
      R"({"train": {"recompute": "selective", "tile": 128, "offload_activations": "disk"}})");
  for (const Result* const result : {&tiled, &all}) {
    for (size_t i = 0; i < plain.losses.size(); ++i) {
      CHECK(std::abs(result->losses[i] - plain.losses[i]) <= 1e-5 * std::abs(plain.losses[i]));
    }
  }
  if (plain.peak > 0) {  // under sanitizers nothing counts
    CHECK(blocks.peak < plain.peak);
    CHECK(selective.peak < plain.peak);
    CHECK(blocks.peak < selective.peak);
    CHECK(disk.peak < blocks.peak);
    CHECK(tiled.peak < blocks.peak);
    CHECK(all.peak < tiled.peak);
  }
}

TEST_CASE("settings of activations that have no effect are refused", "[recipes][.release]") {
  CHECK_THAT(refused(R"({"train": {"offload_activations": "disk"}})"),
             contains_text("[recipe.contradiction]") && contains_text("no block does"));
  CHECK_THAT(refused(R"({"train": {"recompute": "blocks", "offload_activations": "host"}})"),
             contains_text("/train/offload_activations: \"host\" moves activations from a GPU"));
  CHECK_THAT(refused(R"({"train": {"offload_folder": "/tmp"}})"),
             contains_text("/train/offload_folder: the folder has no use"));
  CHECK_THAT(refused(R"({"train": {"recompute": "selective", "precision": "fp64"}})"),
             contains_text("/train/recompute: \"selective\" keeps results"));
  CHECK_THAT(refused(R"({"train": {"recompute": ["selective", "layers.0"]}})"),
             contains_text("\"selective\" stands beside other entries"));
  const HostRun run(small_recipe(R"({"train": {"tile": 4}})"));
  CHECK(run.result().exit_code == 3);
  CHECK_THAT(run.result().err, contains_text("[model.cannot_tile]"));
}

TEST_CASE("a folder of offload that does not exist is named", "[recipes]") {
  const std::string err = refused(
      R"({"train": {"recompute": "blocks", "offload_activations": "disk",
                    "offload_folder": "/nowhere/at/all"}})",
      5);
  CHECK_THAT(err,
             contains_text("[model.offload_failed]") &&
                 contains_text("cannot create a scratch file in /nowhere/at/all"));
}

TEST_CASE("--longest prints longer sequences for settings that save more", "[recipes]") {
  const ScratchFolder folder;
  const auto plan = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "--plan", "1", "--recipe", folder.write("recipe.json", long_recipe("{}")).string()};
    words.insert(words.end(), more.begin(), more.end());
    return run_host(words);
  };
  const SubprocessResult result = plan({"--memory", "256MiB", "--longest", "--json"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const nlohmann::json rows = nlohmann::json::parse(result.out)["longest"];
  REQUIRE(rows.size() == 7);
  for (const nlohmann::json& row : rows) {
    CHECK(row["bytes"].get<int64_t>() <= 256 << 20);
    CHECK(row["positions"].get<int64_t>() >= rows[0]["positions"].get<int64_t>());
  }
  CHECK(rows[0]["recompute"] == "none");
  CHECK(rows[6]["offload_activations"] == "disk");
  CHECK(rows[6]["positions"].get<int64_t>() > 4 * rows[0]["positions"].get<int64_t>());
  CHECK(plan({"--longest"}).err.find("--longest needs --memory") != std::string::npos);
  CHECK(plan({"--memory", "256MiB", "--longest"}).out.find(" --set train.tile=1024") !=
        std::string::npos);
}

}  // namespace tenon
