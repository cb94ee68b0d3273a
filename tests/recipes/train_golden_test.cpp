// SPDX-License-Identifier: Apache-2.0
//
// 50 steps of the program itself against the same model trained by PyTorch and transformers, from
// the same first weights and batches (train_golden.py says how the figures were made).
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <string>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

nlohmann::json parsed(const std::string& name) {
  std::ifstream in(source_dir() / "tests" / "parity" / name);
  return nlohmann::json::parse(in);
}

double relative_difference(double got, double want) {
  return std::abs(got - want) / std::abs(want);
}

}  // namespace

TEST_CASE("50 steps of a llama give the losses of PyTorch", "[recipes]") {
  const nlohmann::json golden = parsed("train_golden.json");
  const std::string kernels = GENERATE(R"("auto")",
                                       R"("plain")",
                                       R"({"linear": "mkl"})",
                                       R"({"linear": "onednn"})",
                                       R"({"linear": "tenon"})",
                                       R"({"linear": "plain"})",
                                       R"({"attention": "plain"})",
                                       R"({"embedding": "plain"})",
                                       R"({"gated_mlp": "plain"})",
                                       R"({"rms_norm": "plain"})");
  CAPTURE(kernels);
  nlohmann::json recipe = parsed("train_golden_recipe.json");
  recipe["data"]["train"]["options"]["path"] = (source_dir() / "data" / "kjv.txt").string();
  recipe["kernels"] = nlohmann::json::parse(kernels);
  const HostRun run(recipe.dump());
  INFO(run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == 0);
  const auto metrics = run.metrics();
  REQUIRE(metrics.size() == 50);
  REQUIRE(golden["loss"].size() == 50);
  // Another start is another run: make the golden figures anew.
  CHECK(metrics[0]["dump_run/parameters"].get<double>() ==
        Approx(golden["parameters"].get<double>()).epsilon(1e-9));
  for (size_t i = 0; i < 50; ++i) {
    CAPTURE(i);
    CHECK(relative_difference(metrics[i]["loss"], golden["loss"][i]) <= 1e-5);
    CHECK(relative_difference(metrics[i]["grad_norm"], golden["grad_norm"][i]) <= 1e-3);
  }
  CHECK(metrics[49]["loss"].get<double>() < 0.7 * metrics[0]["loss"].get<double>());
}

}  // namespace tenon
