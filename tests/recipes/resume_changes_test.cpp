// SPDX-License-Identifier: Apache-2.0
//
// A run that goes on with another recipe than it was saved with.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

// The run of `first` again, with the same command and more.
SubprocessResult again(const HostRun& first, const std::vector<std::string>& more) {
  std::vector<std::string> words = {"--recipe", (first.folder() / "recipe.json").string()};
  words.insert(words.end(), more.begin(), more.end());
  return run_host(words);
}

std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    // The log may mention the start, and each start has a number.
    const fs::path name = entry.path().filename();
    if (entry.is_regular_file() && name != "log.txt" && name != "attempt") {
      files[entry.path().string()] = file_text(entry.path());
    }
  }
  return files;
}

std::string recipe() {
  return small_recipe(R"({"train": {"steps": 4}, "checkpoint": {"every_steps": 2}})");
}

}  // namespace

TEST_CASE("a run does not go on with a recipe under which its state means something else",
          "[recipes]") {
  const HostRun first(recipe());
  INFO(first.result().err);
  REQUIRE(first.result().exit_code == 0);
  const auto before = contents(first.run_dir());
  for (const std::vector<std::string>& where :
       {std::vector<std::string>{"--run-dir", first.run_dir().string()},
        {"--run-dir", (first.folder() / "new").string(), "--resume", first.run_dir().string()}}) {
    std::vector<std::string> words = {"--set", "seed=99"};
    words.insert(words.end(), where.begin(), where.end());
    const SubprocessResult refused = again(first, words);
    INFO(refused.err);
    CHECK(refused.exit_code == 3);
    CHECK_THAT(refused.err, contains_text("[resume.recipe_changed]"));
    CHECK_THAT(refused.err, contains_text("refused  /seed: "));
    CHECK_THAT(refused.err, contains_text(" -> 99; "));
    CHECK(contents(first.run_dir()) == before);
  }
  CHECK_FALSE(fs::exists(first.folder() / "new"));
}

TEST_CASE("a run goes on with what may change, and tells what makes it another one", "[recipes]") {
  const HostRun first(recipe());
  const SubprocessResult longer = again(first,
                                        {"--run-dir",
                                         first.run_dir().string(),
                                         "--set",
                                         "train.steps=6",
                                         "--set",
                                         "train.clip_grad_norm=3"});
  INFO(longer.err);
  CHECK(longer.exit_code == 0);
  CHECK_THAT(longer.err,
             contains_text("warns    /train/clip_grad_norm: null -> 3; later updates differ"));
  CHECK_THAT(longer.err, !contains_text("/train/steps"));  // a horizon is free to change
  CHECK(first.summary()["steps"] == 6);
  CHECK_THAT(first.file("recipe.json"), contains_text("\"steps\": 6"));
}

TEST_CASE("metrics and a best evaluation may come and go where a run goes on",
          "[recipes][.release]") {
  const std::string patch =
      R"({"train": {"steps": 4, "log_every": 4}, "checkpoint": {"every_steps": 2},
      "data": {"eval": {"type": "windows", "options": {"samples": 9}}}, "eval": {"every_steps": 1},
      "metrics": [{"type": "accuracy", "options": {"train": "run"}}]})";
  const HostRun first(small_recipe(patch), {"--set", "train.exit_at_step=2"});
  INFO(first.result().err);
  REQUIRE(first.result().exit_code == 75);
  const HostRun whole(small_recipe(patch));
  REQUIRE(whole.result().exit_code == 0);

  // One more in front of the old one, which goes on with what it has gathered.
  const std::string two =
      R"(metrics=[{"type": "accuracy", "name": "late", "options": {"train": "run"}},)"
      R"( {"type": "accuracy", "options": {"train": "run"}}])";
  const std::string best = R"(eval.keep_best={"metric": "eval/late", "mode": "max"})";
  const SubprocessResult more =
      again(first, {"--run-dir", first.run_dir().string(), "--set", two, "--set", best});
  INFO(more.err);
  REQUIRE(more.exit_code == 0);
  CHECK_THAT(more.err, contains_text("warns    /metrics/0: (nothing) -> "));
  CHECK_THAT(more.err, contains_text("the metric starts now"));
  CHECK_THAT(more.err, contains_text("/eval/keep_best: null -> "));
  CHECK(first.summary()["best"]["step"].get<int>() >= 3);
  CHECK(first.summary()["metrics"]["accuracy/run"] == whole.summary()["metrics"]["accuracy/run"]);
  CHECK(first.summary()["metrics"].contains("late/run"));

  // And without them again; the same name for something else is refused.
  const SubprocessResult less = again(
      first,
      {"--run-dir", first.run_dir().string(), "--set", "train.steps=6", "--set", "metrics=[]"});
  INFO(less.err);
  CHECK(less.exit_code == 0);
  CHECK_THAT(less.err, contains_text("the metric ends"));
  CHECK_THAT(less.err, contains_text("the run ends with its last parameters"));
  const SubprocessResult other =
      again(whole,
            {"--run-dir",
             whole.run_dir().string(),
             "--set",
             "train.steps=6",
             "--set",
             R"(metrics=[{"type": "accuracy", "options": {"train": "window"}}])"});
  INFO(other.err);
  CHECK(other.exit_code == 3);
  CHECK_THAT(other.err, contains_text("refused  /metrics/0/options"));
}

}  // namespace tenon
