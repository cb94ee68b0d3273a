// SPDX-License-Identifier: Apache-2.0
//
// What is asked of a run that has ended: to be evaluated, exported, loaded, or started again. No
// answer comes from what an earlier start has stored about a step; each is that of another run that
// ended there, or was asked at once.
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// Runs of the program in folders beside each other.
class Runs {
 public:
  fs::path path(const std::string& name) const { return folder_.path() / name; }

  SubprocessResult start(const std::string& name,
                         const std::string& recipe,
                         const Words& more = {},
                         int num_ranks = 1) const {
    return run_host(folder_.write("recipe.json", recipe), path(name), num_ranks, more);
  }
  // The same for a start that has to end with `code`. Returns its summary.
  nlohmann::json run(const std::string& name,
                     const std::string& recipe,
                     const Words& more = {},
                     int code = 0,
                     int num_ranks = 1) const {
    const SubprocessResult result = start(name, recipe, more, num_ranks);
    INFO(name << "\n" << result.out << result.err);
    REQUIRE(result.exit_code == code);
    return nlohmann::json::parse(file_text(path(name) / "summary.json"));
  }
  // Evaluates a run or a checkpoint in a new folder.
  nlohmann::json evaluate(const std::string& name,
                          const std::string& recipe,
                          const fs::path& what,
                          Words more = {},
                          int num_ranks = 1) const {
    more.insert(more.end(), {"--eval-only", "--resume", what.string()});
    return run(name, recipe, more, 0, num_ranks);
  }

 private:
  ScratchFolder folder_;
};

constexpr char kEvaluated[] = R"({"data": {"eval": {"type": "windows", "options": {"samples": 9}}},
    "eval": {"every_steps": 2}})";
constexpr char kOtherData[] =
    R"({"data": {"eval": {"options": {"samples": 23}}, "test": {"type": "windows",
    "options": {"samples": 5}}}, "metrics": [{"type": "accuracy"}]})";

// Of a run whose best evaluation is not its last: it counts the largest loss as the best.
std::string best_recipe(const std::string& patch = "{}") {
  return patched(small_recipe(R"({"data": {"eval": {"type": "windows", "options": {"samples": 24}}},
    "eval": {"every_steps": 2, "keep_best": {"metric": "eval/loss", "mode": "max"}}})"),
                 patch);
}

std::string stops_early(int patience) {
  return patched(best_recipe(R"({"train": {"steps": 100}, "checkpoint": {"every_steps": 2}})"),
                 R"({"hooks": [{"type": "early_stop", "options": {"metric": "eval/loss",
    "mode": "max", "patience": )" +
                     std::to_string(patience) + "}}]}");
}

std::string last_of(const fs::path& run) {
  std::string line;
  std::ifstream in(run / "last_checkpoint");
  std::getline(in, line);
  return line;
}

}  // namespace

TEST_CASE("--eval-only evaluates a finished run on the data, losses and metrics of now",
          "[recipes]") {
  const Runs runs;
  const std::string recipe = small_recipe(kEvaluated);
  const nlohmann::json trained = runs.run("run", recipe);
  // The answer of a run that trained on the same steps and had the other data from the start.
  const std::string other = patched(recipe, kOtherData);
  const nlohmann::json want = runs.run("other", other)["metrics"];
  REQUIRE(want["eval/loss"] != trained["metrics"]["eval/loss"]);
  const auto check = [&](const std::string& name, const fs::path& what, const Words& more = {}) {
    const nlohmann::json now = runs.evaluate(name, other, what, more);
    INFO(name);
    for (const char* const metric : {"eval/loss", "eval/accuracy", "test/loss", "test/accuracy"}) {
      CHECK(now["metrics"][metric] == want[metric]);
    }
    CHECK(now["steps"] == 6);
    CHECK_THAT(now["reason"].get<std::string>(),
               contains_text("evaluated step 6 of ") && contains_text("step-00000006"));
  };
  check("of-run", runs.path("run"));
  check("of-checkpoint", last_of(runs.path("run")));
  check("longer", runs.path("run"), {"--set", "train.steps=60"});
  // The same data: the value of now equals the stored one.
  const nlohmann::json same = runs.evaluate("same", recipe, runs.path("run"));
  CHECK(same["metrics"]["eval/loss"] == trained["metrics"]["eval/loss"]);
  // Another loss is evaluated, too.
  const std::string weighted = patched(recipe, R"({"loss": {"weight": 2.0}})");
  const nlohmann::json twice = runs.evaluate("weighted", weighted, runs.path("run"));
  CHECK(twice["metrics"]["eval/loss"].get<double>() ==
        Approx(2 * trained["metrics"]["eval/loss"].get<double>()));
  // Another model is refused.
  CHECK(runs.start("model",
                   patched(recipe, R"({"model": {"options": {"hidden": [9]}}})"),
                   {"--eval-only", "--resume", runs.path("run").string()})
            .exit_code == 3);
}

TEST_CASE("--eval-only on two ranks gives the metrics of one", "[recipes][multi-rank][.release]") {
  const Runs runs;
  const std::string recipe = small_recipe(kEvaluated);
  runs.run("run", recipe);
  const std::string other = patched(recipe, kOtherData);
  const nlohmann::json one = runs.evaluate("one", other, runs.path("run"));
  const nlohmann::json two = runs.evaluate("two", other, runs.path("run"), {}, 2);
  CHECK(two["metrics"]["eval/loss"].get<double>() ==
        Approx(one["metrics"]["eval/loss"].get<double>()).epsilon(1e-6));
  CHECK(two["metrics"]["test/accuracy"] == one["metrics"]["test/accuracy"]);
}

TEST_CASE("--eval-only in the folder of a run leaves the run's files alone", "[recipes]") {
  const Runs runs;
  const std::string recipe = small_recipe(kEvaluated);
  runs.run("run", recipe);
  const std::string summary = file_text(runs.path("run") / "summary.json");
  const std::string frozen = file_text(runs.path("run") / "recipe.json");
  const std::string metrics = file_text(runs.path("run") / "metrics.jsonl");
  runs.run("run", patched(recipe, kOtherData), {"--eval-only", "--resume", "auto"});
  CHECK(file_text(runs.path("run") / "summary.json") == summary);
  CHECK(file_text(runs.path("run") / "recipe.json") == frozen);
  CHECK(file_text(runs.path("run") / "metrics.jsonl").starts_with(metrics));
  const auto evaluated = nlohmann::json::parse(file_text(runs.path("run") / "evaluation.json"));
  CHECK(evaluated["metrics"].contains("test/loss"));
}

TEST_CASE("all who read the model of a run read its best parameters, those who resume the last",
          "[recipes]") {
  const Runs runs;
  const nlohmann::json trained = runs.run("run", best_recipe());
  const uint64_t best = trained["best"]["step"];
  REQUIRE(best < 6);
  const auto until = [&](uint64_t step) {
    return patched(
        best_recipe(),
        R"({"eval": {"keep_best": null}, "train": {"steps": )" + std::to_string(step) + "}}");
  };
  const nlohmann::json short_run = runs.run("short", until(best));
  const nlohmann::json full = runs.run("full", until(6));

  // --eval-only
  const nlohmann::json evaluated = runs.evaluate("evaluated", best_recipe(), runs.path("run"));
  CHECK(evaluated["parameters_hash"] == short_run["parameters_hash"]);
  CHECK(evaluated["metrics"]["eval/loss"] == trained["best"]["value"]);
  CHECK(evaluated["steps"] == best);
  CHECK_THAT(evaluated["reason"].get<std::string>(),
             contains_text("evaluated step " + std::to_string(best) + " of ") &&
                 contains_text("the best so far (eval/loss "));
  const nlohmann::json last =
      runs.evaluate("last", best_recipe(), runs.path("run"), {"--which", "last"});
  CHECK(last["parameters_hash"] == full["parameters_hash"]);
  CHECK(last["steps"] == 6);

  // load
  const auto loaded = [&](const std::string& name, const std::string& more) {
    const std::string load =
        R"({"load": [{"from": ")" + runs.path("run").string() + R"(")" + more + "}]}";
    return runs.run(name, patched(until(1), load), {"--eval-only"})["parameters_hash"];
  };
  CHECK(loaded("loaded", "") == short_run["parameters_hash"]);
  CHECK(loaded("loaded-best", R"(, "which": "best")") == short_run["parameters_hash"]);
  CHECK(loaded("loaded-last", R"(, "which": "last")") == full["parameters_hash"]);
  CHECK(loaded("loaded-optimizer", R"(, "parts": ["parameters", "optimizer"])") ==
        full["parameters_hash"]);

  // --export
  const auto exported = [&](const std::string& name, const std::string& run, const Words& more) {
    Words words = {
        "--export", "torch", runs.path(name).string(), "--run-dir", runs.path(run).string()};
    words.insert(words.end(), more.begin(), more.end());
    const SubprocessResult result = run_host(words);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    return std::pair(file_text(runs.path(name)), result.out);
  };
  const auto [model, line] = exported("model.pt", "run", {});
  CHECK(model == exported("short.pt", "short", {}).first);
  CHECK_THAT(line, contains_text("from step " + std::to_string(best)) && contains_text("best"));
  CHECK(exported("last.pt", "run", {"--which", "last"}).first ==
        exported("full.pt", "full", {}).first);

  // A run without a best evaluation says so.
  const SubprocessResult none = run_host({"--export",
                                          "torch",
                                          runs.path("none.pt").string(),
                                          "--run-dir",
                                          runs.path("full").string(),
                                          "--which",
                                          "best"});
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.err, contains_text("[checkpoint.no_best]"));

  // To resume is to go on with the last parameters.
  const nlohmann::json longer =
      runs.run("run", best_recipe(), {"--set", "train.steps=8", "--set", "eval.keep_best=null"});
  CHECK(longer["parameters_hash"] == runs.run("eight", until(8))["parameters_hash"]);
}

TEST_CASE("tables at the end are those of the best evaluation, also of a run that was stopped",
          "[recipes][.release]") {
  const Runs runs;
  const std::string recipe = patched(best_recipe(), kRowsOfTables);
  const nlohmann::json trained = runs.run("run", recipe);
  const uint64_t best = trained["best"]["step"];
  REQUIRE(best < 5);
  const std::string until = patched(
      recipe, R"({"eval": {"keep_best": null}, "train": {"steps": )" + std::to_string(best) + "}}");
  runs.run("short", until, {"--export-tables", runs.path("short-tables").string()});
  const nlohmann::json stopped =
      runs.run("stopped",
               recipe,
               {"--set", "train.exit_at_step=5", "--export-tables", runs.path("tables").string()},
               75);
  CHECK(stopped["best"]["step"] == best);
  for (const auto& entry : fs::directory_iterator(runs.path("short-tables"))) {
    INFO(entry.path());
    CHECK(file_text(entry.path()) == file_text(runs.path("tables") / entry.path().filename()));
  }
}

TEST_CASE("a run that has ended is complete: the same command trains and changes nothing",
          "[recipes]") {
  const Runs runs;
  const auto check_complete = [&](const std::string& name,
                                  const std::string& recipe,
                                  const Words& more,
                                  const std::string& reason) {
    const std::string summary = file_text(runs.path(name) / "summary.json");
    const std::string metrics = file_text(runs.path(name) / "metrics.jsonl");
    for (int start = 0; start < 2; ++start) {
      const SubprocessResult again = runs.start(name, recipe, more);
      INFO(again.out << again.err);
      CHECK(again.exit_code == 0);
      CHECK_THAT(again.out,
                 contains_text("done: already complete at step ") && contains_text(reason));
      CHECK_THAT(again.out, !contains_text(" in 0 s"));
      CHECK(file_text(runs.path(name) / "summary.json") == summary);
      CHECK(file_text(runs.path(name) / "metrics.jsonl") == metrics);
    }
  };
  const std::string by_length = best_recipe(R"({"data": {"test": {"type": "windows"}}})");
  runs.run("length", by_length);
  check_complete("length", by_length, {}, "reached 6 steps");
  CHECK(runs.run("length", by_length, {"--set", "train.steps=8"})["steps"] == 8);

  const nlohmann::json stopped = runs.run("early", stops_early(2));
  check_complete("early", stops_early(2), {}, "early_stop: eval/loss did not improve");
  // A changed early stop trains on, and so does a raised limit.
  CHECK(runs.run("early", stops_early(4))["steps"].get<int>() > stopped["steps"].get<int>());
  runs.run("limit", stops_early(2));
  CHECK(runs.run("limit", stops_early(2), {"--set", "train.steps=200"})["steps"].get<int>() >
        stopped["steps"].get<int>());

  const std::string by_time = small_recipe(R"({"train": {"steps": null, "minutes": 1e-7}})");
  runs.run("time", by_time);
  check_complete("time", by_time, {}, "reached 1e-07 minutes");

  const Words at = {"--set", "train.exit_at_step=3"};
  const std::string six = small_recipe();
  CHECK(runs.run("exit", six, at, 75)["steps"] == 3);
  check_complete("exit", six, at, "exit_at_step 3");
  CHECK(runs.run("exit", six, {"--set", "train.exit_at_step=5"}, 75)["steps"] == 5);
  CHECK(runs.run("exit", six)["steps"] == 6);

  // What the end still lacks is made up for: another test set is evaluated.
  const std::string tested = patched(by_length, R"({"train": {"steps": 8},
      "data": {"test": {"options": {"samples": 3}}}})");
  const nlohmann::json more = runs.run("length", tested);
  CHECK(more["steps"] == 8);
  CHECK(more["metrics"]["test/loss"] != nullptr);
}

TEST_CASE("a hook that stops after the checkpoint of its step has ended the run", "[recipes]") {
  const Runs runs;
  const std::string recipe = small_recipe(R"({"train": {"steps": null, "epochs": 9},
    "checkpoint": {"every_epochs": 1}, "hooks": [{"type": "request_at", "options":
    {"requests": [{"event": "after_epoch", "step": 6, "request": "stop"}]}}]})");
  CHECK(runs.run("run", recipe)["steps"] == 6);
  CHECK(runs.run("run", recipe)["steps"] == 6);
}

TEST_CASE("a bad evaluation set is found before the first step, by set and sample", "[recipes]") {
  // Labels up to 4, for three classes.
  const std::string bad = R"({"data": {"eval": {"good": {"type": "windows"},
    "bad": {"type": "windows", "options": {"num_classes": 5}}}}, "eval": {"every_steps": 4}})";
  const HostRun run(small_recipe(bad));
  INFO(run.result().err);
  CHECK(run.result().exit_code != 0);
  CHECK_THAT(run.result().err, contains_text("eval/bad") && contains_text("sample "));
  CHECK_THAT(run.result().out, !contains_text("step 1"));
  CHECK(run.metrics().empty());
}

TEST_CASE("a bad row of an evaluation set is found by its file and line", "[recipes]") {
  const ScratchFolder folder;
  const std::string header = "a,b,c,d,labels\n";
  const std::string file = folder.write("bad.csv", header + "1,2,3,4,0\n1,2,3,4,3\n").string();
  const nlohmann::json eval = {
      {"type", "csv"},
      {"options",
       {{"files", {file}},
        {"fields",
         {{{"name", "x"}, {"columns", {"a..d"}}},
          {{"name", "labels"}, {"column", "labels"}, {"dtype", "i64"}}}}}}};
  const HostRun run(small_recipe(
      nlohmann::json{{"data", {{"eval", eval}}}, {"eval", {{"every_steps", 4}}}}.dump()));
  INFO(run.result().err);
  CHECK(run.result().exit_code != 0);
  CHECK_THAT(run.result().err,
             contains_text("sample 1 (counted from 0) (") && contains_text("bad.csv, line 3)"));
}

TEST_CASE("a metric that no evaluation gives is found before the first step", "[recipes]") {
  const std::string evaluated = R"({"metrics": [{"type": "accuracy"}], "data":
    {"eval": {"type": "windows"}}, "eval": {"every_steps": 2}, "checkpoint": {"every_steps": 2}})";
  const auto check = [&](const std::string& patch, const std::string& key) {
    const HostRun run(small_recipe(patched(evaluated, patch)));
    INFO(key << "\n" << run.result().err);
    CHECK(run.result().exit_code == 3);
    CHECK_THAT(
        run.result().err,
        contains_text("[metric.unknown] " + key) && contains_text("did you mean \"eval/loss\"?"));
    CHECK_FALSE(fs::exists(run.run_dir()));
  };
  check(R"({"eval": {"keep_best": {"metric": "eval/lss", "mode": "min"}}})",
        "/eval/keep_best/metric");
  check(R"({"checkpoint": {"keep_best": {"metric": "eval/lss", "mode": "min", "count": 1}}})",
        "/checkpoint/keep_best/metric");
  check(R"({"hooks": [{"type": "early_stop", "options": {"metric": "eval/lss"}}]})",
        "/hooks/0/options/metric");
}

TEST_CASE("an evaluation that fails later loses no training", "[recipes]") {
  // The third batch of the evaluation after step 4 cannot be read.
  const std::string recipe = small_recipe(R"({"data": {"eval": {"type": "windows",
    "options": {"samples": 12, "fail_at_sample": 9}}}, "eval": {"every_steps": 4}})");
  for (const int num_ranks : {1, 2}) {
    INFO(num_ranks);
    const Runs runs;
    const std::string text = patched(
        recipe, R"({"train": {"global_batch_size": 8}, "parallel": {"timeout_seconds": 9}})");
    const SubprocessResult failed = runs.start("run", text, {}, num_ranks);
    INFO(failed.out << failed.err);
    CHECK(failed.exit_code == 5);
    CHECK_THAT(failed.err, contains_text("evaluation on eval "));
    CHECK_THAT(last_of(runs.path("run")), contains_text("step-00000004"));
    const nlohmann::json resumed =
        runs.run("run", text, {"--set", "data.eval.options.fail_at_sample=null"}, 0, num_ranks);
    CHECK(resumed["resumed"]["step"] == 4);
    CHECK(resumed["steps"] == 6);
  }
}

TEST_CASE("a run that began with another run's checkpoint begins with it again",
          "[recipes][.release]") {
  const Runs runs;
  const std::string recipe = small_recipe(R"({"checkpoint": {"every_steps": 5}})");
  // Trained at another learning rate, so that its parameters are no others'.
  runs.run(
      "source", recipe, {"--set", "train.exit_at_step=2", "--set", "optimizer.options.lr=0.3"}, 75);
  const Words from = {"--resume", runs.path("source").string()};
  const nlohmann::json whole = runs.run("whole", recipe, from);
  const std::string lost = patched(recipe, R"({"hooks": [{"type": "fail_at", "options":
    {"how": "kill", "event": "after_step", "step": 3}}]})");
  runs.start("run", lost, from);
  REQUIRE(fs::exists(runs.path("run") / "beginning.json"));
  REQUIRE(last_of(runs.path("run")).empty());
  const nlohmann::json again = runs.run("run", recipe);
  CHECK(again["resumed"]["step"] == 2);
  CHECK(again["parameters_hash"] == whole["parameters_hash"]);
  // The first command, too, begins again; on request a run starts over.
  runs.start("first", lost, from);
  CHECK(runs.run("first", recipe, from)["parameters_hash"] == whole["parameters_hash"]);
  runs.start("over", lost, from);
  const nlohmann::json over = runs.run("over", recipe, {"--resume", "none"});
  CHECK(over["resumed"].is_null());
  CHECK(over["parameters_hash"] != whole["parameters_hash"]);
  CHECK_FALSE(fs::exists(runs.path("over") / "beginning.json"));
}

TEST_CASE("a run folder is enough to train on and to evaluate", "[recipes]") {
  const Runs runs;
  runs.run("run", small_recipe(kEvaluated));
  Words words = {"--run-dir", runs.path("run").string(), "--set", "train.steps=8"};
  const SubprocessResult longer = run_host(words);
  INFO(longer.err);
  CHECK(longer.exit_code == 0);
  CHECK(nlohmann::json::parse(file_text(runs.path("run") / "summary.json"))["steps"] == 8);
  CHECK(run_host({"--eval-only",
                  "--resume",
                  runs.path("run").string(),
                  "--run-dir",
                  runs.path("evaluated").string()})
            .exit_code == 0);
}

TEST_CASE("data that changed since the checkpoint is status 3, and no reason to restart",
          "[recipes]") {
  const Runs runs;
  const auto write_rows = [&](int num_rows) {
    std::ofstream out(runs.path("rows.csv"));
    out << "a,b,c,d,y\n";
    for (int i = 0; i < num_rows; ++i) {
      out << i << ",1,2,3," << i % 3 << "\n";
    }
  };
  const std::string recipe = small_recipe(R"({"data": {"train": {"type": "csv", "options": {
    "samples": null, "files": [")" + runs.path("rows.csv").string() +
                                          R"("], "fields": [{"name": "x", "columns": ["a..d"]},
    {"name": "labels", "column": "y", "dtype": "i64"}]}}}})");
  write_rows(24);
  runs.run("run", recipe, {"--set", "train.exit_at_step=3"}, 75);
  write_rows(5);
  for (const Words& more : {Words(), Words{"--launch", "2", "--max-restarts", "2"}}) {
    const SubprocessResult changed = runs.start("run", recipe, more);
    INFO(changed.out << changed.err);
    CHECK(changed.exit_code == 3);
    CHECK_THAT(changed.err, contains_text("[data."));
    CHECK_THAT(changed.err, !contains_text("restarting all ranks"));
  }
}

}  // namespace tenon
