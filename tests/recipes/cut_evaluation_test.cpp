// SPDX-License-Identifier: Apache-2.0
//
// An evaluation that a signal cuts short is made up for by the run that goes on: its records and
// parameters are those of the run that was never stopped.
#include <filesystem>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

// Where a signal comes.
struct Moment {
  std::string event;
  int step;
  int nth;
};

class Runs {
 public:
  explicit Runs(const std::string& recipe, int num_ranks = 1) : num_ranks_(num_ranks) {
    file_ = folder_.write("recipe.json", recipe).string();
    const SubprocessResult result = run("whole", {});
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
  }

  // Stops at `moment` and goes on. False where nothing was stopped there.
  bool check(const Moment& moment) {
    const std::string name = "cut-" + std::to_string(num_cut_++);
    INFO("stopped at " << moment.event << " of step " << moment.step << ", number " << moment.nth);
    const SubprocessResult cut =
        run(name,
            {"--set",
             R"(hooks=[{"type": "signal_at", "options": {"rank": 0, "signals": [{"event": ")" +
                 moment.event + R"(", "step": )" + std::to_string(moment.step) + R"(, "nth": )" +
                 std::to_string(moment.nth) + "}]}}]"});
    INFO(cut.out << cut.err);
    if (cut.exit_code == 0) {
      return false;
    }
    REQUIRE(cut.exit_code == 75);
    const SubprocessResult rest = run(name, {});
    INFO(rest.out << rest.err);
    REQUIRE(rest.exit_code == 0);
    CHECK(records(name) == records("whole"));
    CHECK(summary(name)["samples"] == summary("whole")["samples"]);
    CHECK(summary(name)["best"] == summary("whole")["best"]);
    CHECK(summary(name)["parameters_hash"] == summary("whole")["parameters_hash"]);
    return true;
  }

 private:
  SubprocessResult run(const std::string& name, const std::vector<std::string>& more) const {
    return run_host(file_, folder_.path() / name, num_ranks_, more);
  }
  std::vector<nlohmann::json> records(const std::string& name) const {
    return metric_records(file_text(folder_.path() / name / "metrics.jsonl"));
  }
  nlohmann::json summary(const std::string& name) const {
    return nlohmann::json::parse(file_text(folder_.path() / name / "summary.json"));
  }

  ScratchFolder folder_;
  std::string file_;
  int num_ranks_;
  int num_cut_ = 0;
};

std::string windows_recipe(const std::string& when) {
  return small_recipe(R"({"metrics": [{"type": "accuracy"}],
      "train": {"steps": null, "epochs": 1, "steps_per_window": 2},
      "data": {"train": {"options": {"samples": null, "windows": [
                 {"label": "a", "size": 13}, {"label": "b", "size": 10}]}},
               "eval": {"type": "windows", "options": {"windows": [
                 {"label": "x", "size": 9}, {"label": "y", "size": 3}]}}},
      "eval": {"next_window": true, "every_windows": 1, "with_window": ")" +
                      when + R"("}, "checkpoint": {}})");
}

}  // namespace

TEST_CASE("an evaluation that a signal has cut is made up for", "[recipes]") {
  Runs runs(small_recipe(R"({"train": {"steps": 8},
      "data": {"eval": {"a": {"type": "windows", "options": {"samples": 9}},
                        "b": {"type": "windows", "options": {"samples": 5}}}},
      "metrics": [{"type": "accuracy"}],
      "eval": {"at_start": true, "every_steps": 2, "every_epochs": 1,
               "keep_best": {"metric": "eval/a/loss", "mode": "min"}},
      "checkpoint": {}})"));
  CHECK(runs.check({"before_evaluate", 0, 1}));
  CHECK(runs.check({"before_evaluate", 4, 1}));
  CHECK(runs.check({"before_epoch", 4, 1}));
  CHECK(runs.check({"before_epoch", 4, 2}));  // the first set was done
  CHECK(runs.check({"before_step", 4, 1}));   // the evaluation was not begun
  CHECK(runs.check({"before_evaluate", 6, 1}));
  CHECK(runs.check({"before_evaluate", 8, 1}));  // where the run ends
}

TEST_CASE("a run that a signal has stopped before its first step resumes as if it had not",
          "[recipes]") {
  Runs runs(small_recipe(R"({"train": {"steps": 4},
      "data": {"eval": {"type": "windows", "options": {"samples": 9}}},
      "eval": {"at_start": true, "every_steps": 2}, "checkpoint": {}})"));
  CHECK(runs.check({"create", 0, 1}));
  CHECK(runs.check({"before_init", 0, 1}));
  CHECK(runs.check({"after_init", 0, 1}));
  Runs ranks(small_recipe(R"({"train": {"steps": 4}, "checkpoint": {}})"), 2);
  CHECK(ranks.check({"create", 0, 1}));
  CHECK(ranks.check({"before_init", 0, 1}));
}

TEST_CASE("evaluations on windows that a signal has cut are made up for", "[recipes][.release]") {
  for (const std::string when : {"before", "after"}) {
    INFO(when);
    Runs runs(windows_recipe(when));
    int num_stopped = 0;
    for (const int step : {0, 2, 4}) {
      for (const int nth : {1, 2, 3}) {
        num_stopped += runs.check({"before_evaluate", step, nth}) ? 1 : 0;
      }
    }
    CHECK(num_stopped >= 6);
  }
}

TEST_CASE("ranks make up for an evaluation together", "[recipes][multi-rank][.release]") {
  Runs runs(small_recipe(R"({"train": {"steps": 6},
      "data": {"batch_size": 2, "eval": {"type": "windows", "options": {"samples": 9}}},
      "eval": {"every_steps": 2}, "checkpoint": {}})"),
            2);
  CHECK(runs.check({"before_evaluate", 4, 1}));
  CHECK(runs.check({"before_window", 4, 1}));
}

}  // namespace tenon
