// SPDX-License-Identifier: Apache-2.0
//
// What is evaluated, when, and under which names: several sets, --eval-only, and signals.
#include <filesystem>
#include <sstream>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

constexpr char kTwoSets[] = R"({
  "a": {"type": "windows", "options": {"samples": 6}},
  "b": {"type": "windows", "options": {"windows": [{"label": "u", "size": 5}, {"label": "v", "size": 3}]}}})";

std::string with_eval(const std::string& sets, const std::string& more) {
  return small_recipe(R"({"data": {"eval": )" + sets + "}" + (more.empty() ? "" : ", ") + more +
                      "}");
}

// The names of the events of evaluations, in their order.
std::vector<std::string> evaluation_events(const HostRun& run) {
  std::istringstream lines(run.file("events.jsonl"));
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line);
    if (!event["is_train"].get<bool>()) {
      names.push_back(event["event"]);
    }
  }
  return names;
}

}  // namespace

TEST_CASE("named evaluation sets give the figures that each gives alone", "[recipes]") {
  const HostRun both(with_eval(kTwoSets, R"("eval": {"every_steps": 3})"));
  INFO(both.result().out << both.result().err);
  REQUIRE(both.result().exit_code == 0);
  const auto sets = nlohmann::json::parse(kTwoSets);
  for (const std::string name : {"a", "b"}) {
    const HostRun alone(with_eval(sets[name].dump(), R"("eval": {"every_steps": 3})"));
    REQUIRE(alone.result().exit_code == 0);
    const std::string metric = "eval/" + name + "/loss";
    std::vector<double> found;
    for (const auto& record : both.metrics()) {
      if (record.contains(metric)) {
        found.push_back(record[metric]);
      }
    }
    std::vector<double> want;
    for (const auto& record : alone.metrics()) {
      if (record.contains("eval/loss")) {
        want.push_back(record["eval/loss"]);
      }
    }
    CHECK(want.size() == 2);
    CHECK(found == want);
    CHECK(both.summary()["metrics"][metric] == want.back());
    CHECK_THAT(both.last_line(), contains_text("; " + metric + " "));
  }
  CHECK_FALSE(both.summary()["metrics"].contains("eval/loss"));
  CHECK_THAT(both.result().out, contains_text("eval/b"));
}

TEST_CASE("several sets are one evaluation, with an epoch and windows for each", "[recipes]") {
  const HostRun run(with_eval(kTwoSets, R"("hooks": [{"type": "event_trace"}])"));
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 0);
  std::vector<std::string> found;
  for (const std::string& name : evaluation_events(run)) {
    if (name.find("evaluate") != std::string::npos || name.find("epoch") != std::string::npos ||
        name.find("window") != std::string::npos || name == "out_of_data") {
      found.push_back(name);
    }
  }
  CHECK(found == std::vector<std::string>{"before_evaluate",
                                          "before_epoch",
                                          "before_window",
                                          "out_of_data",
                                          "after_window",
                                          "after_epoch",
                                          "before_epoch",
                                          "before_window",
                                          "out_of_data",
                                          "after_window",
                                          "before_window",
                                          "out_of_data",
                                          "after_window",
                                          "after_epoch",
                                          "after_evaluate"});
}

TEST_CASE("several losses have a figure each in each set", "[recipes]") {
  const HostRun run(with_eval(kTwoSets, R"("loss": null, "losses": [
    {"name": "x", "type": "cross_entropy"}, {"name": "y", "type": "cross_entropy", "weight": 0.5}])"));
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 0);
  const auto metrics = run.summary()["metrics"];
  const double x = metrics["eval/b/loss/x"];
  CHECK(metrics["eval/b/loss/y"] == x);
  CHECK(metrics["eval/b/loss"].get<double>() == Approx(1.5 * x));
}

TEST_CASE("early_stop watches the figure of one set", "[recipes]") {
  const std::string watch = R"("eval": {"every_steps": 1}, "hooks": [{"type": "early_stop",
    "options": {"patience": 1, "min_delta": 1000.0, "metric": )";
  const HostRun run(with_eval(kTwoSets, watch + R"("eval/b/loss"}}])"));
  CHECK(run.result().exit_code == 0);
  CHECK(run.summary()["steps"] == 2);
  CHECK_THAT(run.last_line(), contains_text("early_stop: eval/b/loss did not improve on"));
  const HostRun wrong(with_eval(kTwoSets, watch + R"("eval/loss"}}])"));
  CHECK(wrong.result().exit_code == 3);
  CHECK_THAT(wrong.result().err, contains_text("[metric.unknown] /hooks/0/options/metric"));
}

TEST_CASE("--eval-only evaluates the initial parameters and trains nothing", "[recipes]") {
  const std::string hooks = R"("eval": {"at_start": true}, "hooks": [{"type": "event_trace"}])";
  const HostRun only(with_eval(kTwoSets, hooks), {"--eval-only"});
  const HostRun trained(with_eval(kTwoSets, hooks));
  INFO(only.result().err);
  REQUIRE(only.result().exit_code == 0);
  REQUIRE(only.metrics().size() == 1);
  CHECK(only.metrics().front() == trained.metrics().front());
  CHECK(only.metrics().front().contains("eval/a/loss"));
  CHECK(only.summary()["steps"] == 0);
  CHECK(only.summary()["outcome"] == "done");
  CHECK(only.summary()["metrics"]["eval/b/loss"] == only.metrics().front()["eval/b/loss"]);
  CHECK_THAT(only.last_line(), contains_text("done: evaluated the initial parameters in "));
  const std::string trace = only.file("events.jsonl");
  CHECK(trace.find("before_step") == std::string::npos);
  CHECK_THAT(trace, contains_text("after_evaluate"));
  CHECK_THAT(trace, contains_text(R"({"event":"end","step":0,)"));
}

TEST_CASE("--eval-only without a set to evaluate is refused before anything is made", "[recipes]") {
  const HostRun run(small_recipe(), {"--eval-only"});
  CHECK(run.result().exit_code == 3);
  CHECK_THAT(run.result().err, contains_text("[recipe.no_eval]"));
  CHECK_FALSE(std::filesystem::exists(run.run_dir()));
  const HostRun both(small_recipe(), {"--eval-only", "--validate"});
  CHECK(both.result().exit_code == 2);
}

// A second signal would end the process: the hook sends one at each batch, so that a second batch
// would be seen.
TEST_CASE("a signal ends an evaluation at its next batch", "[recipes]") {
  const std::string hooks = R"("hooks": [{"type": "event_trace"}, {"type": "signal_at", "options":
    {"signals": [{"event": "after_data", "step": 0, "signal": "SIGTERM"}]}}, {"type": "early_stop"}])";
  for (const bool is_eval_only : {false, true}) {
    const HostRun run(
        with_eval(kTwoSets, R"("eval": {"at_start": true}, )" + hooks),
        is_eval_only ? std::vector<std::string>{"--eval-only"} : std::vector<std::string>());
    INFO(run.result().err);
    CHECK(run.result().exit_code == 75);
    CHECK_THAT(run.last_line(), contains_text("stopped early: received SIGTERM"));
    CHECK(run.summary()["steps"] == 0);
    CHECK(run.metrics().empty());
    CHECK(evaluation_events(run) == std::vector<std::string>{"before_evaluate",
                                                             "before_epoch",
                                                             "before_window",
                                                             "after_data",
                                                             "before_forward",
                                                             "after_forward",
                                                             "before_loss",
                                                             "after_loss",
                                                             "after_window",
                                                             "after_epoch"});
  }
}

TEST_CASE("a signal in the evaluation at the end stops a run early that had reached it",
          "[recipes]") {
  const HostRun run(with_eval(kTwoSets, R"("hooks": [{"type": "signal_at", "options": {"signals":
    [{"event": "before_epoch", "step": 6, "signal": "SIGINT", "nth": 2}]}}])"));
  INFO(run.result().err);
  CHECK(run.result().exit_code == 75);
  CHECK(run.summary()["steps"] == 6);
  CHECK_THAT(run.last_line(), contains_text("stopped early: received SIGINT"));
  // The first set was done, the second one was cut.
  CHECK(run.metrics().back().contains("eval/a/loss"));
  CHECK_FALSE(run.metrics().back().contains("eval/b/loss"));
  CHECK_FALSE(run.summary()["metrics"].contains("eval/b/loss"));
}

}  // namespace tenon
