// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/run_report.hpp"

#include <nlohmann/json.hpp>

#include <limits>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

Recipe small() {
  Recipe recipe;
  recipe.name = "small";
  recipe.file = "small.json";
  recipe.seed = 3;
  return recipe;
}

RunReport report_of(const Recipe& recipe) {
  return {.recipe = recipe,
          .version = "0.1",
          .torch_version = "2.1",
          .device = "2 threads",
          .run_dir = "runs/a",
          .command_line = "host --recipe small.json",
          .role = {},
          .num_parameters = 67,
          .components = {{"model", "mlp", "org.tenon.mlp 0.1", "67 parameters"},
                         {"optimizer", "sgd", "org.tenon.sgd 0.1", ""}},
          .device_waits = {},
          .live_handles = {{"org.tenon.mlp", 2}}};
}

}  // namespace

TEST_CASE("the header names each component with its plugin", "[train]") {
  const Recipe recipe = small();
  CHECK(header_text(report_of(recipe)) ==
        "tenon 0.1, libtorch 2.1, 2 threads\n"
        "recipe     small.json, seed 3\n"
        "model      mlp           org.tenon.mlp 0.1, 67 parameters\n"
        "optimizer  sgd           org.tenon.sgd 0.1\n"
        "run        runs/a");
}

TEST_CASE("the last line has the outcome, the losses of evaluations and the folder", "[train]") {
  const Recipe recipe = small();
  Outcome outcome;
  outcome.reason = "reached 6 steps";
  outcome.seconds = 28;
  CHECK(last_line(report_of(recipe), outcome) == "done: reached 6 steps in 28 s; runs/a");
  outcome.code = ExitCode::kStopped;
  outcome.reason = "received SIGTERM";
  outcome.lost_records = 2;
  CHECK(last_line(report_of(recipe), outcome) ==
        "stopped early: received SIGTERM in 28 s; 2 writes of metrics failed; runs/a");
}

TEST_CASE("the summary has null for what a run does not have, and for what is not a number",
          "[train]") {
  const Recipe recipe = small();
  Outcome outcome;
  outcome.reason = "reached 6 steps";
  outcome.state.step = 6;
  outcome.last_metrics = {{"loss", std::numeric_limits<double>::quiet_NaN()}, {"lr", 0.5}};
  auto summary = nlohmann::json::parse(summary_json(report_of(recipe), outcome));
  CHECK(summary["name"] == "small");
  CHECK(summary["outcome"] == "done");
  CHECK(summary["steps"] == 6);
  CHECK(summary["metrics"]["loss"].is_null());
  CHECK(summary["metrics"]["lr"] == 0.5);
  CHECK(summary["components"][1]["type"] == "sgd");
  CHECK_FALSE(summary.contains("device_waits"));
  CHECK(summary["live_handles"]["org.tenon.mlp"] == 2);
  for (const char* const key :
       {"error_id", "best", "checkpoints", "exports", "resumed", "loaded", "last_window"}) {
    INFO(key);
    CHECK(summary[key].is_null());
  }
  outcome.saves = SaveCount{.committed = 2, .failed = 1, .last = "runs/a/checkpoints/b"};
  outcome.resumed_from = "runs/a/checkpoints/a";
  outcome.resumed_at = 3;
  summary = nlohmann::json::parse(summary_json(report_of(recipe), outcome));
  CHECK(summary["checkpoints"]["committed"] == 2);
  CHECK(summary["checkpoints"]["last"] == "runs/a/checkpoints/b");
  CHECK(summary["resumed"]["step"] == 3);
}

}  // namespace tenon
