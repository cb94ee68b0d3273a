// SPDX-License-Identifier: Apache-2.0
//
// Runs that go wrong: the exit code, the message, and what is left behind.
#include <filesystem>
#include <fstream>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {

TEST_CASE("a hook that fails before the first step is the plugin's fault, after it the run's",
          "[recipes]") {
  const HostRun before(
      small_recipe(R"({"hooks": [{"type": "fail_at", "options": {"event": "start"}}]})"));
  CHECK(before.result().exit_code == 4);
  CHECK_THAT(before.result().err, contains_text("at start: hook \"fail_at\""));
  const HostRun after(small_recipe(R"({"hooks": [{"type": "event_trace"},
    {"type": "fail_at", "options": {"event": "after_forward", "step": 2}}]})"));
  CHECK(after.result().exit_code == 5);
  CHECK_THAT(after.last_line(),
             contains_text("failed: [plugin.failed] at after_forward: hook \"fail_at\""));
  CHECK(after.summary()["error_id"] == "plugin.failed");
  const std::string trace = after.file("events.jsonl");
  CHECK_THAT(trace, contains_text("\"on_error\""));
  CHECK(trace.find("\"on_error\"") < trace.find("\"end\""));
}

TEST_CASE("a read that fails is told with the dataset, the run ends with 5", "[recipes]") {
  const HostRun run(
      small_recipe(R"({"data": {"shuffle": false, "train": {"options": {"fail_at_sample": 9}}}})"));
  CHECK(run.result().exit_code == 5);
  CHECK_THAT(run.result().err, contains_text("dataset \"windows\""));
  CHECK_THAT(run.result().err, contains_text("sample 9 cannot be read"));
  CHECK(run.summary()["steps"] == 3);
}

TEST_CASE("what can be known before the run leaves no run folder", "[recipes][.release]") {
  const char* const patches[] = {
      R"({"loss": {"inputs": {"labels": "no_such_field"}}})",
      R"({"model": {"options": {"input": "labels"}}})",
      R"({"optimizer": {"groups": [{"match": "nothing*", "lr": 1.0}]}})",
      R"({"train": {"steps": null, "epochs": 1}, "lr_scheduler": {"type": "cosine"}})",
      R"({"train": {"global_batch_size": 6}})",
      R"({"train": {"stepz": 3}})",
  };
  for (const char* patch : patches) {
    const HostRun run(small_recipe(patch));
    INFO(patch << "\n" << run.result().err);
    CHECK(run.result().exit_code == 3);
    CHECK_FALSE(std::filesystem::exists(run.run_dir()));
    CHECK_FALSE(run.result().err.empty());
  }
}

TEST_CASE("a run folder that is not empty is left alone", "[recipes]") {
  const ScratchFolder folder;
  folder.write("keep.txt", "precious");
  const HostRun run(small_recipe(), {"--run-dir", folder.path().string()});
  CHECK(run.result().exit_code == 2);
}

TEST_CASE("a request that cannot be granted is an error", "[recipes]") {
  for (const char* request : {"checkpoint", "roll_back", "evaluate"}) {
    const HostRun run(small_recipe(R"({"hooks": [{"type": "request_at", "options":
      {"requests": [{"event": "before_step", "step": 2, "request": ")" +
                                   std::string(request) + R"("}]}}]})"),
                      {"--set", "checkpoint=null"});
    INFO(request);
    CHECK(run.result().exit_code == 5);
    CHECK_THAT(run.result().err, contains_text("[hook.bad_request]"));
  }
}

TEST_CASE("another loss is one line of the recipe, in whatever language it is written",
          "[recipes]") {
  const std::string patch =
      R"({"model": {"options": {"out_features": 1}}, "data": {"shuffle": false}, "train": {"steps": 13}, "loss": )";
  const HostRun plain(small_recipe(patch + R"({"type": "plain_loss"}})"));
  const HostRun mse(small_recipe(patch + R"({"type": "mse", "inputs": {"targets": "y"}}})"));
  INFO(plain.result().err << mse.result().err);
  REQUIRE(plain.result().exit_code == 0);
  REQUIRE(mse.result().exit_code == 0);
  // Half the squared error, and the whole of it, of the same model before its first update.
  CHECK(2 * plain.metrics()[0]["loss"].get<double>() ==
        Approx(mse.metrics()[0]["loss"].get<double>()).epsilon(1e-6));
  // The first batch again, two epochs later.
  CHECK(plain.metrics()[12]["loss"] < plain.metrics()[0]["loss"]);
}

}  // namespace tenon
