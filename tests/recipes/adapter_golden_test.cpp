// SPDX-License-Identifier: Apache-2.0
//
// 50 steps of adapters against PEFT, from the same first weights and batches (adapter_golden.py
// says how the figures were made): on one rank, with recompute, and on two ranks with all shards.
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <string>

#include "tests/recipes/host_run.hpp"
#include "tests/recipes/ranks_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

nlohmann::json parsed(const std::string& name) {
  std::ifstream in(source_dir() / "tests" / "parity" / name);
  return nlohmann::json::parse(in);
}

nlohmann::json recipe_of(const std::string& type) {
  nlohmann::json recipe = parsed("adapter_golden_recipe.json");
  recipe["data"]["train"]["options"]["path"] = (source_dir() / "data" / "kjv.txt").string();
  recipe["model"]["parametrizations"][0]["type"] = type;
  return recipe;
}

double relative_difference(double got, double want) {
  return std::abs(got - want) / std::abs(want);
}

void check_losses(const std::vector<nlohmann::json>& metrics, const nlohmann::json& golden) {
  REQUIRE(metrics.size() == 50);
  REQUIRE(golden["loss"].size() == 50);
  for (size_t i = 0; i < 50; ++i) {
    CAPTURE(i);
    CHECK(relative_difference(metrics[i]["loss"], golden["loss"][i]) <= 1e-5);
    CHECK(relative_difference(metrics[i]["grad_norm"], golden["grad_norm"][i]) <= 1e-3);
  }
  CHECK(metrics[49]["loss"].get<double>() < 0.9 * metrics[0]["loss"].get<double>());
}

}  // namespace

TEST_CASE("50 steps of an adapter give the losses of PEFT", "[recipes]") {
  const nlohmann::json golden = parsed("adapter_golden.json");
  const std::string type = GENERATE("lora", "rslora", "dora");
  const std::string recompute = GENERATE("none", "blocks");
  CAPTURE(type, recompute);
  nlohmann::json recipe = recipe_of(type);
  recipe["train"]["recompute"] = recompute;
  const HostRun run(recipe.dump());
  INFO(run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == 0);
  const auto metrics = run.metrics();
  if (type == "dora") {
    // Another start is another run: make the golden figures anew.
    CHECK(metrics[0]["dump_run/parameters"].get<double>() ==
          Approx(golden["parameters"].get<double>()).epsilon(1e-6));
  }
  check_losses(metrics, golden[type]);
}

TEST_CASE("adapters on two ranks with sharded parameters give the losses of PEFT",
          "[recipes][multi-rank][.release]") {
  const nlohmann::json golden = parsed("adapter_golden.json");
  const std::string type = GENERATE("lora", "dora");
  const int stage = GENERATE(2, 3);
  CAPTURE(type, stage);
  nlohmann::json recipe = recipe_of(type);
  recipe["data"]["batch_size"] = 4;
  recipe["train"]["global_batch_size"] = 8;
  recipe["parallel"] = {{"shard", 2}, {"stage", stage}};
  const RanksRun run(recipe.dump(), 2);
  INFO(run.text());
  REQUIRE(run.exit_codes() == std::vector<int>{0, 0});
  check_losses(run.metrics(), golden[type]);
}

}  // namespace tenon
