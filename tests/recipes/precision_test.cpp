// SPDX-License-Identifier: Apache-2.0
//
// train.precision, run by the program.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

// A llama of 27,000 parameters on the bytes of the license: a text that is always there.
std::string language_recipe(const std::string& precision) {
  std::ifstream file(source_dir() / "recipes" / "quickstart.json");
  nlohmann::json recipe = nlohmann::json::parse(file,
                                                nullptr,
                                                true,
                                                /*ignore_comments=*/true);
  recipe.merge_patch(nlohmann::json::parse(R"({
    "threads": {"compute": 1},
    "model": {"options": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}},
    "data": {"batch_size": 8, "train": {"options": {"sequence_length": 64}},
             "eval": {"options": {"sequence_length": 64}}},
    "lr_scheduler": {"options": {"warmup_steps": 5}},
    "train": {"steps": 40},
    "eval": {"batches": 2}})"));
  for (const char* set : {"train", "eval"}) {
    recipe["data"][set]["options"]["path"] = (source_dir() / "LICENSE").string();
  }
  recipe["train"]["precision"] = precision;
  return recipe.dump();
}

double eval_loss(const std::string& precision) {
  const HostRun run(language_recipe(precision));
  INFO(precision << "\n" << run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == 0);
  return run.metrics().back()["eval/loss"].get<double>();
}

}  // namespace

TEST_CASE("the bf16 precisions train to the loss of fp32, within 1% or 2%", "[recipes][.release]") {
  const double wide = eval_loss("fp32");
  CHECK(wide < 4);  // ln 256 is 5.5
  // Where parameters themselves are bf16, small updates are lost, and the bound is wider.
  for (const auto& [precision, bound] : std::vector<std::pair<std::string, double>>{
           {"bf16_autocast", 0.01}, {"bf16_params", 0.01}, {"bf16", 0.02}}) {
    INFO(precision);
    const double narrow = eval_loss(precision);
    CHECK(std::abs(narrow - wide) < bound * wide);
    CHECK(narrow != wide);
  }
}

TEST_CASE("narrow runs follow fp32, and recompute changes no bit of them", "[recipes][.release]") {
  for (const char* precision : {"bf16_autocast", "bf16_params", "bf16"}) {
    nlohmann::json patch = nlohmann::json::parse(
        R"({"train": {"steps": 24, "clip_grad_norm": 1.0},
            "data": {"shuffle": false},
            "optimizer": {"options": {"momentum": 0.5}}})");
    patch["train"]["precision"] = precision;
    const HostRun kept(small_recipe(patch.dump()));
    patch["train"]["recompute"] = "blocks";
    const HostRun recomputed(small_recipe(patch.dump()));
    INFO(precision << kept.result().err << recomputed.result().err);
    REQUIRE(kept.result().exit_code == 0);
    CHECK(kept.metrics() == recomputed.metrics());
    patch["train"]["precision"] = "fp32";
    const HostRun wide(small_recipe(patch.dump()));
    CHECK(kept.metrics()[23]["loss"].get<double>() ==
          Approx(wide.metrics()[23]["loss"].get<double>()).epsilon(0.02));
    CHECK(kept.metrics()[23]["loss"] != wide.metrics()[23]["loss"]);
  }
}

TEST_CASE("blocks see what a hook wrote into the parameters", "[recipes]") {
  for (const char* precision : {"fp32", "bf16_params", "bf16"}) {
    nlohmann::json patch = nlohmann::json::parse(
        R"({"hooks": [{"type": "plant_at", "options":
            {"event": "after_step", "first_step": 2, "into": "parameters", "value": 0.0}}]})");
    patch["train"]["precision"] = precision;
    const HostRun run(small_recipe(patch.dump()));
    INFO(precision << run.result().err);
    REQUIRE(run.result().exit_code == 0);
    CHECK(run.metrics()[2]["loss"].get<double>() == Approx(std::log(3.0)).epsilon(1e-6));
    CHECK(run.metrics()[1]["loss"].get<double>() != Approx(std::log(3.0)).epsilon(1e-6));
  }
}

TEST_CASE("fp16 on a CPU is an error of the recipe, before a run folder exists", "[recipes]") {
  const HostRun run(small_recipe(R"({"train": {"precision": "fp16_autocast"}})"));
  CHECK(run.result().exit_code == 3);
  CHECK_THAT(run.result().err, contains_text("[precision.needs_gpu] /train/precision:"));
  CHECK_FALSE(std::filesystem::exists(run.run_dir()));
}

}  // namespace tenon
