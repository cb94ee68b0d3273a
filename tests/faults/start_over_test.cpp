// SPDX-License-Identifier: Apache-2.0
//
// Runs that start again in their folder where no checkpoint is visible: they were lost before their
// first one, or it is not to be found. Whichever it is, no file is lost.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/faults/started_run.hpp"
#include "tests/recipes/host_run.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

std::string short_recipe(const std::string& patch) {
  return patched(busy_recipe(R"({"train": {"steps": 10, "log_every": 1},
      "parallel": {"timeout_seconds": 4, "start_timeout_seconds": 60}})"),
                 patch);
}

constexpr char kExportsOnly[] = R"({"train": {"steps": 8}, "checkpoint": {"every_steps": 1000,
    "exports": [{"format": "weights", "every_steps": 2, "keep_last": 0}]}})";

// Names of the exports that a run has committed, with what identifies their content.
std::map<std::string, std::string> exports_in(const fs::path& run) {
  std::map<std::string, std::string> sums;
  const fs::path folder = run / "exports" / "weights";
  for (const std::string& name : names_in(folder)) {
    if (fs::exists(folder / name / "COMMITTED")) {
      sums[name] = file_text(folder / name / "SUMS.xxh128");
    }
  }
  return sums;
}

}  // namespace

TEST_CASE("a run that was lost before its first checkpoint starts over with the same command",
          "[faults]") {
  const std::string saves = R"({"checkpoint": {"every_steps": 5}})";
  const auto lost = [](const std::string& how) {
    return R"({"hooks": [{"type": "fail_at", "options": {"how": ")" + how +
           R"(", "event": "after_step", "step": 2}}]})";
  };
  const ScratchFolder folder;
  const fs::path whole = folder.write("whole.json", short_recipe(saves));
  CHECK(StartedRun(whole, folder.path() / "whole").wait() == 0);
  for (const std::string how : {"kill", "error"}) {
    INFO(how);
    const std::string recipe = patched(short_recipe(saves), lost(how));
    const fs::path run = folder.path() / how;
    CHECK(StartedRun(folder.write("lost.json", recipe), run).wait() ==
          (how == "kill" ? 128 + SIGKILL : 5));
    const std::string metrics = file_text(run / "metrics.jsonl");
    const std::string log = file_text(run / "log.txt");
    REQUIRE_FALSE(metrics.empty());
    std::ofstream(run / "NOTES.md") << "mine";
    StartedRun again(whole, run);
    const int code = again.wait();
    INFO(again.out() << again.err());
    REQUIRE(code == 0);
    CHECK_THAT(again.out() + again.err(), contains_text("before its first checkpoint"));
    CHECK(records_of(run) == records_of(folder.path() / "whole"));
    CHECK(file_text(run / "attempt-1" / "metrics.jsonl") == metrics);
    CHECK(file_text(run / "attempt-1" / "log.txt").starts_with(log));
    CHECK(file_text(run / "NOTES.md") == "mine");
    // What is finished, what is another's, and what is no run are left alone.
    fs::remove_all(run / "checkpoints");
    CHECK(StartedRun(whole, run).wait() == 2);
    CHECK(summary_of(run)["outcome"] == "done");
  }
  const std::string other =
      patched(patched(short_recipe(saves), lost("kill")), R"({"name": "other"})");
  const fs::path run = folder.path() / "other";
  CHECK(StartedRun(folder.write("other.json", other), run).wait() == 128 + SIGKILL);
  CHECK(StartedRun(whole, run).wait() == 2);
  fs::create_directories(folder.path() / "texts");
  folder.write("texts/log.txt", "mine");
  CHECK(StartedRun(whole, folder.path() / "texts").wait() == 2);
  CHECK(file_text(folder.path() / "texts" / "log.txt") == "mine");
}

TEST_CASE("a start over keeps the exports of the lost run", "[faults][.release]") {
  const ScratchFolder folder;
  const fs::path run = folder.path() / "run";
  const std::string recipe = short_recipe(kExportsOnly);
  const std::string kill = R"({"hooks": [{"type": "fail_at",
      "options": {"how": "kill", "event": "before_step", "step": 7}}]})";
  CHECK(StartedRun(folder.write("lost.json", patched(recipe, kill)), run).wait() == 128 + SIGKILL);
  const auto before = exports_in(run);
  REQUIRE_FALSE(before.empty());
  StartedRun again(folder.write("whole.json", recipe), run);
  const int code = again.wait();
  INFO(again.out() << again.err());
  REQUIRE(code == 0);
  const auto after = exports_in(run);
  CHECK(after.size() == before.size() + 4);
  for (const auto& [name, sums] : before) {
    INFO(name);
    REQUIRE(after.contains(name));
    CHECK(after.at(name) == sums);
  }
}

TEST_CASE("ranks that restart before the first checkpoint keep what the lost ranks wrote",
          "[faults][ranks][.release]") {
  const ScratchFolder folder;
  const fs::path run = folder.path() / "run";
  const std::string kill_once = R"({"hooks": [{"type": "fail_at", "options": {"how": "kill",
      "event": "before_step", "step": 5, "rank": 1, "is_once": true, "mark": ")" +
                                (folder.path() / "mark").string() + R"("}}]})";
  const fs::path recipe =
      folder.write("recipe.json", patched(short_recipe(kExportsOnly), kill_once));
  StartedRun ranks(recipe, run, {"--launch", "2", "--max-restarts", "1"});
  const int code = ranks.wait();
  INFO(ranks.out() << ranks.err());
  REQUIRE(code == 0);
  CHECK_THAT(ranks.err(), contains_text("restarting all ranks (attempt 1 of 1)"));
  CHECK(summary_of(run)["outcome"] == "done");
  CHECK(records_of(run).front()["step"] == 1);
  const fs::path attempt = run / "attempt-1";
  CHECK(summary_of(attempt)["outcome"] == "failed");
  CHECK(records_of(attempt).front()["step"] == 1);
  for (const char* const file :
       {"recipe.json", "log.txt", "logs/rank-1.txt", "errors/report.txt", "errors/rank-1.json"}) {
    INFO(file);
    CHECK_FALSE(file_text(attempt / file).empty());
  }
  CHECK_FALSE(fs::exists(run / "errors"));
  // The exports of both attempts: the first is there twice.
  const auto exports = exports_in(run);
  CHECK(std::ranges::count_if(
            exports, [](const auto& one) { return one.first.starts_with("step-00000002_"); }) == 2);
}

TEST_CASE("a run whose checkpoints are not visible is refused, and nothing of it changes",
          "[faults]") {
  const ScratchFolder folder;
  const fs::path run = folder.path() / "run";
  const fs::path recipe = folder.write(
      "recipe.json", short_recipe(R"({"train": {"steps": 8}, "checkpoint": {"every_steps": 2}})"));
  CHECK(StartedRun(recipe, run, {"--set", "train.exit_at_step=5"}).wait() == 75);
  const fs::path away = folder.path() / "away";
  fs::rename(run / "checkpoints", away);
  fs::create_directory(run / "checkpoints");  // as a mount point without its file system
  const std::string metrics = file_text(run / "metrics.jsonl");
  const std::vector<std::string> names = names_in(run);
  StartedRun refused(recipe, run);
  CHECK(refused.wait() == 2);
  CHECK_THAT(
      refused.err(),
      contains_text("[resume.checkpoints_gone] the run in " + run.string() + " has saved ") &&
          contains_text("step-00000005"));
  CHECK(names_in(run) == names);
  CHECK(file_text(run / "metrics.jsonl") == metrics);
  fs::remove(run / "checkpoints");
  fs::rename(away, run / "checkpoints");
  StartedRun resumed(recipe, run);
  const int code = resumed.wait();
  INFO(resumed.out() << resumed.err());
  REQUIRE(code == 0);
  CHECK(summary_of(run)["resumed"]["step"] == 5);
  CHECK_FALSE(fs::exists(run / "attempt-1"));
}

}  // namespace tenon
