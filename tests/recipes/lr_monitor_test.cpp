// SPDX-License-Identifier: Apache-2.0
//
// The rates that hooks are told, on a whole run.
#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("each line of metrics has the rates of its own step, group by group", "[recipes]") {
  const HostRun run(small_recipe(R"({"train": {"steps": 3, "log_every": 1},
    "optimizer": {"type": "adamw", "options": {"lr": 0.5, "weight_decay": 0.25}, "groups": [
      {"match": "*.0.weight", "lr": 0.125}, {"match": "*.0.bias", "type": "sgd", "momentum": 0.75}]},
    "lr_scheduler": {"type": "linear"},
    "hooks": [{"type": "lr_monitor", "options": {"also": ["weight_decay", "momentum"]}}]})"));
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 0);
  const auto records = run.metrics();
  REQUIRE(records.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    const double factor = 1.0 - static_cast<double>(i) / 3;  // a line that reaches 0 at the end
    INFO(records[i].dump());
    CHECK(records[i]["lr_monitor/default/lr"].get<double>() == Approx(0.5 * factor));
    CHECK(records[i]["lr_monitor/default.no_decay/lr"] == records[i]["lr_monitor/default/lr"]);
    CHECK(records[i]["lr_monitor/group0/lr"].get<double>() == Approx(0.125 * factor));
    CHECK(records[i]["lr_monitor/group1/lr"].get<double>() == Approx(0.01 * factor));
    CHECK(records[i]["lr_monitor/default/weight_decay"] == 0.25);
    CHECK(records[i]["lr_monitor/default.no_decay/weight_decay"] == 0.0);
    CHECK(records[i]["lr_monitor/group1/momentum"] == 0.75);
    CHECK_FALSE(records[i].contains("lr_monitor/default/momentum"));
  }
}

}  // namespace tenon
