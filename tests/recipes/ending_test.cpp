// SPDX-License-Identifier: Apache-2.0
//
// Every way a run can end in order, with its exit code and its last line.
#include <cstdlib>
#include <sstream>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {

TEST_CASE("a run ends at the first horizon that it reaches", "[recipes]") {
  const HostRun steps(small_recipe(R"({"train": {"steps": 4, "epochs": 9}})"));
  CHECK(steps.result().exit_code == 0);
  CHECK_THAT(steps.last_line(), contains_text("done: reached 4 steps in "));
  // 24 samples in batches of 4 are 6 steps an epoch.
  const HostRun epochs(small_recipe(R"({"train": {"steps": 100, "epochs": 2}})"));
  CHECK(epochs.result().exit_code == 0);
  CHECK(epochs.summary()["steps"] == 12);
  CHECK_THAT(epochs.last_line(), contains_text("done: reached 2 epochs in "));
}

TEST_CASE("a horizon in tokens ends the run at the step that reaches it", "[recipes]") {
  const HostRun run(small_recipe(R"({"data": {"train": {"options": {"tokens_per_sample": 5}}},
    "train": {"steps": null, "tokens": 90}})"));
  INFO(run.result().err);
  CHECK(run.result().exit_code == 0);
  CHECK(run.summary()["steps"] == 5);  // of 4 samples, 20 tokens each
  CHECK(run.summary()["tokens"] == 100);
  CHECK_THAT(run.last_line(), contains_text("done: reached 100 tokens in "));
  const HostRun steps(small_recipe(R"({"data": {"train": {"options": {"tokens_per_sample": 5}}},
    "train": {"steps": 2, "tokens": 90}})"));
  CHECK(steps.summary()["steps"] == 2);
}

TEST_CASE("a horizon in tokens over data without tokens is an error, not a run without end",
          "[recipes]") {
  const HostRun run(small_recipe(R"({"train": {"steps": null, "tokens": 90}})"));
  CHECK(run.result().exit_code == 5);
  CHECK_THAT(run.result().err, contains_text("[data.no_tokens]"));
  CHECK_THAT(run.result().err, contains_text("dataset \"windows\""));
}

// So short a time that the first step takes longer, whatever the machine.
TEST_CASE("a horizon in minutes ends the run at the end of a step", "[recipes]") {
  const HostRun run(small_recipe(R"({"train": {"steps": null, "minutes": 1e-7},
    "data": {"eval": {"type": "windows"}}})"));
  INFO(run.result().err);
  CHECK(run.result().exit_code == 0);
  CHECK(run.summary()["steps"] == 1);
  CHECK(run.summary()["updates"] == 1);
  CHECK_THAT(run.last_line(), contains_text("done: reached 1e-07 minutes in "));
  CHECK(run.summary()["metrics"].contains("eval/loss"));  // ended in order
  const HostRun ample(small_recipe(R"({"train": {"steps": 2, "minutes": 600}})"));
  CHECK_THAT(ample.last_line(), contains_text("done: reached 2 steps"));
}

TEST_CASE("a schedule needs total_steps where the horizon is in tokens or minutes", "[recipes]") {
  for (const char* const horizon : {R"("tokens": 100)", R"("minutes": 5)"}) {
    const std::string train = R"({"lr_scheduler": {"type": "cosine"}, "train": {"steps": null, )";
    const HostRun run(small_recipe(train + horizon + "}}"));
    CHECK(run.result().exit_code == 3);
    CHECK_THAT(run.result().err, contains_text("[recipe.no_total]"));
    const HostRun told(small_recipe(train + horizon + R"(, "total_steps": 9, "exit_at_step": 1},
      "data": {"train": {"options": {"tokens_per_sample": 1}}}})"));
    INFO(told.result().err);
    CHECK(told.result().exit_code == 75);
  }
}

TEST_CASE("windows are counted over epochs, and may be cut short", "[recipes]") {
  const std::string windows = R"("data": {"train": {"options": {"windows":
    [{"label": "a", "size": 12}, {"label": "b", "size": 20}]}}})";
  const HostRun all(small_recipe("{" + windows + R"(, "train": {"steps": null, "windows": 3}})"));
  INFO(all.result().err);
  CHECK(all.summary()["steps"] == 3 + 5 + 3);
  CHECK(all.summary()["windows"] == 3);
  CHECK(all.summary()["epochs"] == 1);
  const HostRun cut(small_recipe(
      "{" + windows + R"(, "train": {"steps": null, "windows": 4, "steps_per_window": 2}})"));
  CHECK(cut.summary()["steps"] == 8);
  CHECK_THAT(cut.last_line(), contains_text("reached 4 windows"));
}

TEST_CASE("exit_at_step and exit_after_steps stop early, with exit code 75", "[recipes]") {
  const HostRun at(small_recipe(R"({"train": {"exit_at_step": 3}})"));
  CHECK(at.result().exit_code == 75);
  CHECK(at.summary()["steps"] == 3);
  CHECK_THAT(at.last_line(), contains_text("stopped early: exit_at_step 3"));
  const HostRun after(small_recipe(R"({"train": {"exit_after_steps": 2}})"));
  CHECK(after.result().exit_code == 75);
  CHECK(after.summary()["steps"] == 2);
}

TEST_CASE("a kill-switch file stops the run at the end of its step", "[recipes]") {
  const ScratchFolder folder;
  const auto file = folder.write("stop", "");
  const HostRun run(small_recipe(R"({"train": {"kill_switch": ")" + file.string() + R"("}})"));
  CHECK(run.result().exit_code == 75);
  CHECK_THAT(run.last_line(), contains_text("the kill switch " + file.string() + " exists"));
}

TEST_CASE("a hook's request to stop ends the run as done, with its reason", "[recipes]") {
  const HostRun run(small_recipe(R"({"hooks": [{"type": "request_at", "options":
    {"requests": [{"event": "before_step", "step": 2, "request": "stop"}]}}]})"));
  CHECK(run.result().exit_code == 0);
  CHECK(run.summary()["steps"] == 2);
}

// The signal comes from a hook of the run itself, so that it arrives at a known step.
// A second signal of the same event, as timeout(1) and terminals send it, changes nothing.
TEST_CASE("a SIGTERM or SIGINT ends the run in order, and so do two at once", "[recipes]") {
  const std::string once =
      R"({"train": {"steps": 1000000}, "hooks": [{"type": "event_trace"}, {"type": "signal_at",
    "options": {"signals": [{"event": "before_step", "step": 3, "signal": "SIGTERM"}]}}]})";
  const HostRun first(small_recipe(once));
  CHECK(first.result().exit_code == 75);
  CHECK_THAT(first.last_line(), contains_text("stopped early: received SIGTERM"));
  CHECK(first.summary()["steps"] == 3);
  CHECK_THAT(first.file("events.jsonl"), contains_text(R"({"event":"end","step":3,)"));
  const std::string twice =
      R"({"train": {"steps": 1000000}, "checkpoint": {"every_steps": 1000}, "hooks": [{"type":
    "signal_at", "options": {"signals": [{"event": "before_step", "step": 3, "signal": "SIGINT"}, {"event": "before_forward", "step": 3, "signal": "SIGINT"}]}}]})";
  const HostRun second(small_recipe(twice));
  CHECK(second.result().exit_code == 75);
  CHECK(second.summary()["steps"] == 3);
  CHECK(second.summary()["checkpoints"]["committed"] == 1);
}

// The hook is created after the recipe is checked and before the run folder exists; its events
// before_init and start come while parameters are initialized.
TEST_CASE("a signal before the first step stops the run before it", "[recipes]") {
  for (const char* const event : {"create", "before_init", "start"}) {
    for (const char* const signal : {"SIGTERM", "SIGINT"}) {
      INFO(event << " " << signal);
      const HostRun run(small_recipe(
          R"({"train": {"steps": 1000000}, "hooks": [{"type": "signal_at", "options": {"signals":
          [{"event": ")" +
          std::string(event) + R"(", "step": 0, "signal": ")" + signal + R"("}]}}]})"));
      INFO(run.result().err);
      CHECK(run.result().exit_code == 75);
      CHECK_THAT(run.last_line(), contains_text("stopped early: received " + std::string(signal)));
      CHECK(run.summary()["exit_code"] == 75);
      CHECK(run.summary()["outcome"] == "stopped early");
      CHECK(run.summary()["steps"] == 0);
      CHECK_FALSE(std::filesystem::exists(run.run_dir() / ".lock"));
    }
  }
}

TEST_CASE("a signal to one rank before the first step stops all before it",
          "[recipes][multi-rank][.release]") {
  for (const char* const event : {"create", "before_init"}) {
    INFO(event);
    const HostRun run(small_recipe(R"({"train": {"steps": 1000000}, "hooks": [{"type": "signal_at",
        "options": {"rank": 1, "signals": [{"event": ")" +
                                   std::string(event) + R"(", "step": 0}]}}]})"),
                      {"--launch", "2"});
    INFO(run.result().err);
    CHECK(run.result().exit_code == 75);
    CHECK(run.summary()["reason"] == "rank 1: received SIGTERM");
    CHECK(run.summary()["steps"] == 0);
  }
}

// The hook sends both, and then stays in its call for longer than a run has to stop in order.
TEST_CASE("two signals in a blocking call before the first step end the run in time",
          "[recipes][.release]") {
  const HostRun run(small_recipe(R"({"hooks": [{"type": "signal_at", "options": {"signals":
      [{"event": "create", "step": 0}, {"event": "create", "step": 0, "signal": "SIGINT"}]}}]})"));
  CHECK(run.result().exit_code == 75);
  const std::string said = run.result().out + run.result().err;
  CHECK_THAT(said, contains_text("received SIGTERM: the run stops before its first step"));
  CHECK_THAT(said, contains_text("stopped before the first step, in hook \"signal_at\""));
  CHECK_FALSE(std::filesystem::exists(run.run_dir()));
}

// The first start is stopped in its last evaluation, so the second has only that to do. There, the
// hook stays in its call for longer than a run has to stop before its first step.
TEST_CASE("a signal in the last evaluation of a resumed run ends it in order",
          "[recipes][.release]") {
  const ScratchFolder folder;
  const auto recipe = folder.write("recipe.json", small_recipe(R"({"train": {"steps": 2},
      "data": {"eval": {"type": "windows", "options": {"samples": 9}}}, "checkpoint": {}})"));
  const auto start = [&](const std::string& signal) {
    std::vector<std::string> more;
    if (!signal.empty()) {
      more = {"--set",
              R"(hooks=[{"type": "signal_at", "options": {"signals": [)" + signal + "]}}]"};
    }
    return run_host(recipe, folder.path() / "run", 1, more);
  };
  CHECK(start(R"({"event": "before_evaluate", "step": 2})").exit_code == 75);
  const SubprocessResult second =
      start(R"({"event": "before_evaluate", "step": 2, "stays": true})");
  const std::string said = second.out + second.err;
  INFO(said);
  CHECK(second.exit_code == 75);
  CHECK_THAT(said, contains_text("the run stops after the running step and one save"));
  CHECK_THAT(said, contains_text("stopped early: received SIGTERM"));
  CHECK(start("").exit_code == 0);
  const auto summary = nlohmann::json::parse(file_text(folder.path() / "run" / "summary.json"));
  CHECK(summary["metrics"].contains("eval/loss"));
}

TEST_CASE("each record says how long a step waited for data, which is a part of the step",
          "[recipes]") {
  const HostRun run(small_recipe());
  REQUIRE(run.result().exit_code == 0);
  std::istringstream lines(run.file("metrics.jsonl"));
  int num_records = 0;
  for (std::string line; std::getline(lines, line); ++num_records) {
    const auto record = nlohmann::json::parse(line);
    CHECK(record["data_wait_seconds"].get<double>() >= 0);
    CHECK(record["data_wait_seconds"].get<double>() <= record["step_seconds"].get<double>());
  }
  CHECK(num_records == 6);
}

}  // namespace tenon
