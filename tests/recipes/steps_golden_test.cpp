// SPDX-License-Identifier: Apache-2.0
//
// 100 steps of the program against PyTorch: clipping by norm and by value, with and without
// accumulation, losses and metrics (tests/parity/steps_golden.py says how the figures were made).
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

using nlohmann::json;

json golden() {
  std::ifstream in(source_dir() / "tests" / "parity" / "steps_golden.json");
  return json::parse(in);
}

json recipe_of(const json& patch, const std::string& precision) {
  json recipe = json::parse(small_recipe(R"({
    "model": {"options": {"activation": "tanh"}},
    "data": {"shuffle": false},
    "hooks": [{"type": "plant_at", "options": {"event": "start", "first_step": 0, "waves": true}}],
    "train": {"steps": 100}})"));
  recipe["optimizer"] = nullptr;
  recipe["loss"] = nullptr;
  recipe.merge_patch(patch);
  if (recipe["loss"]["type"] == "cross_entropy") {
    recipe["metrics"] = json::parse(R"([
      {"type": "accuracy", "options": {"train": "step", "ignore_index": 0}},
      {"type": "perplexity", "options": {"train": "step", "ignore_index": 0}}])");
  }
  recipe["train"]["precision"] = precision;
  return recipe;
}

void check_case(const json& entry, const std::string& precision, double tolerance) {
  const HostRun run(recipe_of(entry["patch"], precision).dump());
  INFO(entry["name"] << ", " << precision << "\n" << run.result().err);
  REQUIRE(run.result().exit_code == 0);
  const auto metrics = run.metrics();
  REQUIRE(metrics.size() == 100);
  for (const auto& [metric, values] : entry["fp64"].items()) {
    double farthest = 0;
    for (size_t i = 0; i < metrics.size(); ++i) {
      REQUIRE(metrics[i].contains(metric));
      const double difference = metrics[i][metric].get<double>() - values[i].get<double>();
      farthest = std::max(farthest, std::abs(difference));
    }
    INFO(metric);
    CHECK(farthest <= tolerance);
  }
  CHECK(metrics[99]["loss"] < metrics[0]["loss"]);
}

}  // namespace

TEST_CASE("100 steps with clipping are those of PyTorch, to 1e-10 in fp64", "[recipes]") {
  const json all = golden();
  REQUIRE(all["cases"].size() == 8);
  for (const json& entry : all["cases"]) {
    check_case(entry, "fp64", 1e-10);
  }
}

TEST_CASE("100 steps with clipping are those of PyTorch, to 1e-6 in fp32", "[recipes][.release]") {
  const json all = golden();
  REQUIRE(all["cases"].size() == 8);
  for (const json& entry : all["cases"]) {
    REQUIRE(entry["fp32_rounding"].get<double>() < 1e-6);  // of PyTorch's own, against its fp64
    check_case(entry, "fp32", 1e-6);
  }
}

}  // namespace tenon
