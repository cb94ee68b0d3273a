// SPDX-License-Identifier: Apache-2.0
//
// Ranking metrics in whole runs: their names, the log, and several ranks.
#include <cmath>
#include <string>

#include "tests/recipes/host_run.hpp"
#include "tests/recipes/ranks_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

// 60 samples of 7 users. The rate changes the parameters by next to nothing, so that runs of any
// number of ranks evaluate the same model.
std::string recipe_in(const ScratchFolder& desk, const std::string& metrics) {
  std::string rows = "a,b,click,user\n";
  for (int i = 0; i < 60; ++i) {
    rows += std::to_string(std::sin(i)) + "," + std::to_string(std::cos(3 * i)) + "," +
            std::to_string(i * i % 3 == 0 ? 1 : 0) + "," + std::to_string(i * 5 % 7) + "\n";
  }
  desk.write("clicks.csv", rows);
  const std::string data = R"({"type": "csv", "options": {"files": [")" +
                           (desk.path() / "clicks.csv").string() + R"("], "fields": [
      {"name": "x", "columns": ["a", "b"]}, {"name": "labels", "column": "click"},
      {"name": "user", "dtype": "i64"}]}})";
  return R"({"name": "clicks", "seed": 1, "threads": {"compute": 1},
    "model": {"type": "mlp", "options": {"in_features": 2, "hidden": [4], "out_features": 1}},
    "data": {"batch_size": 8, "train": )" +
         data + R"(, "eval": )" + data + R"(},
    "loss": {"type": "bce_with_logits"}, "metrics": )" +
         metrics + R"(, "optimizer": {"type": "sgd", "options": {"lr": 1e-12}},
    "train": {"steps": 8, "log_every": 8}})";
}

}  // namespace

TEST_CASE("ranking metrics have figures in a run, and say when memory is full",
          "[recipes][multi-rank]") {
  const ScratchFolder desk;
  const std::string recipe = recipe_in(desk, R"([{"type": "auc"}, {"type": "gauc"},
    {"type": "logloss"}, {"type": "calibration"},
    {"type": "ndcg_at_k", "inputs": {"group": "user"}, "options": {"k": 3}},
    {"name": "rough", "type": "auc", "options": {"max_bytes": 1000}},
    {"name": "some", "type": "gauc", "options": {"max_bytes": 1000}}])");
  const HostRun one(recipe);
  INFO(one.result().out << one.result().err);
  REQUIRE(one.result().exit_code == 0);
  const auto metrics = one.summary()["metrics"];
  CHECK(metrics["eval/logloss"].get<double>() ==
        Approx(metrics["eval/loss"].get<double>()).epsilon(1e-6));
  CHECK(metrics["eval/auc"].get<double>() > 0);
  CHECK(metrics["eval/rough"].get<double>() ==
        Approx(metrics["eval/auc"].get<double>()).margin(0.05));
  CHECK_THAT(one.result().err + one.result().out,
             contains_text("org.tenon.auc: 60 samples exceed max_bytes (1000); auc is computed "
                           "from 2048 intervals of scores, within 1e-3"));
  CHECK_THAT(one.result().err + one.result().out,
             contains_text("org.tenon.gauc: only the first 31 of 60 samples fit in max_bytes"));

  const RanksRun two(recipe, 2);
  INFO(two.text());
  REQUIRE(two.exit_codes() == std::vector<int>{0, 0});
  for (const char* name : {"eval/auc",
                           "eval/gauc",
                           "eval/logloss",
                           "eval/calibration",
                           "eval/ndcg_at_k",
                           "eval/rough"}) {
    CAPTURE(name);
    CHECK(two.summary()["metrics"][name].get<double>() ==
          Approx(metrics[name].get<double>()).epsilon(1e-6));
  }
}

}  // namespace tenon
