// SPDX-License-Identifier: Apache-2.0
//
// Runs of --launch that lose ranks and go on: with all of them or with fewer, and ranks that are
// late without being lost. What is compared are the figures of each step with those of a run that
// lost nothing.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/faults/started_run.hpp"
#include "tests/recipes/host_run.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// Twelve samples a step, on 1, 2 or 3 ranks.
std::string recipe_of_twelve(const std::string& patch = "{}") {
  nlohmann::json recipe = nlohmann::json::parse(small_recipe(R"({
    "optimizer": {"type": "adamw", "options": {"lr": 0.02}},
    "data": {"batch_size": 2, "train": {"options": {"samples": 60}}},
    "train": {"steps": 12, "log_every": 1, "global_batch_size": 12},
    "parallel": {"timeout_seconds": 5, "start_timeout_seconds": 60},
    "checkpoint": {"every_steps": 1}})"));
  recipe.merge_patch(nlohmann::json::parse(patch));
  return recipe.dump(2);
}

// A rank that is lost in step 5, and then is not to be had any more.
std::string lost_for_good(const std::string& place, const std::string& again) {
  return R"({"hooks": [
    {"type": "fail_at", "options": {"event": "after_loss", "step": 5, "how": "kill", )" +
         place + R"(}},
    {"type": "fail_at", "options": {"event": "start", "is_again": true, )" +
         place + ", " + again + "}}]}";
}

class Runs {
 public:
  explicit Runs(const std::string& recipe, const std::string& whole = recipe_of_twelve())
      : recipe_(folder_.write("recipe.json", recipe)) {
    StartedRun run(folder_.write("whole.json", whole), path("whole"), {"--launch", "3"});
    wait_for(run, 0);
  }

  std::unique_ptr<StartedRun> start(const std::string& name, const Words& arguments) const {
    return std::make_unique<StartedRun>(recipe_, path(name), arguments);
  }

  static void wait_for(StartedRun& run, int code) {
    const int ended_with = run.wait();
    INFO(run.out() << run.err());
    REQUIRE(ended_with == code);
  }

  // The same samples in each step, to rounding.
  void check_same_metrics(const fs::path& run_dir) const {
    const auto all = records_of(path("whole"));
    const auto records = records_of(run_dir);
    REQUIRE(records.size() == all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      INFO(records[i].dump() << "\n" << all[i].dump());
      REQUIRE(records[i].contains("loss") == all[i].contains("loss"));
      CHECK(records[i].value("step", 0) == all[i].value("step", 0));
      const double loss = all[i].value("loss", 0.0);
      CHECK(std::abs(records[i].value("loss", 0.0) - loss) <= 1e-5 * std::abs(loss));
    }
  }

  fs::path path(const std::string& name) const { return folder_.path() / name; }
  const fs::path& recipe() const { return recipe_; }

 private:
  ScratchFolder folder_;
  fs::path recipe_;
};

}  // namespace

TEST_CASE("a rank that is lost for good is excluded, and the others take the same steps",
          "[faults][ranks]") {
  const Runs runs(recipe_of_twelve(lost_for_good(R"("slot": 1)", R"("how": "kill")")));
  const auto run =
      runs.start("fewer", {"--launch", "3", "--max-restarts", "3", "--min-ranks", "2"});
  Runs::wait_for(*run, 0);
  const std::string err = run->err();
  INFO(run->out() << err);
  CHECK_THAT(err, contains_text("rank 1 was killed by signal 9 (SIGKILL)"));
  CHECK_THAT(err, contains_text("restarting all ranks (attempt 1 of 3)"));
  CHECK_THAT(err,
             contains_text("slot 1 is excluded: its rank failed, and again before its first step. "
                           "continuing with slots 0 and 2"));
  CHECK_THAT(err, contains_text("restarting all ranks (attempt 2 of 3)"));
  CHECK_THAT(err, !contains_text("attempt 3"));
  const nlohmann::json summary = summary_of(runs.path("fewer"));
  CHECK(summary["outcome"] == "done");
  CHECK(summary["world_size"] == 2);
  CHECK(summary["resumed"]["step"] >= 1);
  runs.check_same_metrics(runs.path("fewer"));
  CHECK(check_checkpoints(runs.path("fewer")).step == 12);
  // What each start left is kept.
  CHECK(fs::exists(runs.path("fewer") / "errors-1" / "rank-1.json"));
  CHECK(fs::exists(runs.path("fewer") / "errors-1" / "report.txt"));
  wait_until([&] { return run->processes().empty(); });
}

TEST_CASE("a rank that lost its plugin or device after a restart is excluded",
          "[faults][ranks][.release]") {
  const Runs runs(recipe_of_twelve(lost_for_good(R"("slot": 2)", R"("how": "create")")));
  SECTION("where fewer ranks may go on") {
    const auto run =
        runs.start("fewer", {"--launch", "3", "--max-restarts", "2", "--min-ranks", "1"});
    Runs::wait_for(*run, 0);
    CHECK_THAT(run->err(), contains_text("slot 2 is excluded"));
    CHECK(summary_of(runs.path("fewer"))["world_size"] == 2);
    runs.check_same_metrics(runs.path("fewer"));
  }
  SECTION("else the run ends with that error, and what it has saved stays") {
    const auto run = runs.start("same", {"--launch", "3", "--max-restarts", "2"});
    Runs::wait_for(*run, 4);
    CHECK_THAT(run->err(), contains_text("rank 2: "));
    CHECK_THAT(run->err(), !contains_text("is excluded"));
    CHECK(check_checkpoints(runs.path("same")).step >= 1);
  }
}

TEST_CASE("the last remaining rank resumes in the run folder that no option names",
          "[faults][ranks][.release]") {
  const std::string patch = lost_for_good(R"("slot": 0)", R"("how": "exit")");
  const Runs runs(recipe_of_twelve(patch));
  Words words = {"timeout", "--signal=KILL", "100"};
  const Words own = host_words(runs.recipe());
  words.insert(words.end(), own.begin(), own.end());
  words.insert(words.end(), {"--launch", "2", "--max-restarts", "3", "--min-ranks", "1"});
  SubprocessOptions options;
  options.working_dir = runs.path("").string();
  const SubprocessResult result = run_subprocess(words, options);
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.err, contains_text("continuing with slot 1"));
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(runs.path("runs"))) {
    found.push_back(entry.path());
  }
  REQUIRE(found.size() == 1);
  CHECK(summary_of(found[0])["world_size"] == 1);
  CHECK(summary_of(found[0])["resumed"]["step"] >= 1);
  runs.check_same_metrics(found[0]);
}

TEST_CASE("fewer ranks are rejected if they cannot take the same steps", "[faults][ranks]") {
  const ScratchFolder folder;
  const auto refused = [&](const std::string& patch, const std::string& min_ranks) {
    Words words = host_words(folder.write("recipe.json", recipe_of_twelve(patch)));
    words.insert(words.end(),
                 {"--run-dir",
                  (folder.path() / "run").string(),
                  "--launch",
                  "4",
                  "--max-restarts",
                  "2",
                  "--min-ranks",
                  min_ranks});
    const SubprocessResult result = run_subprocess(words);
    CHECK(result.exit_code == 2);
    CHECK_FALSE(fs::exists(folder.path() / "run"));
    return result.err;
  };
  CHECK_THAT(
      refused(R"({"train": {"global_batch_size": null, "gradient_accumulation": 3}})", "2"),
      contains_text("[usage.bad_option] --min-ranks 2: on fewer ranks a step of this recipe would "
                    "have fewer samples; say how many it has: train.global_batch_size, which on 4 "
                    "ranks is 24"));
  // 8 samples a step, 2 a rank: not on three.
  CHECK_THAT(refused(R"({"train": {"global_batch_size": 8}})", "3"),
             contains_text("[usage.bad_option] --min-ranks 3: the recipe can be trained on no such "
                           "number of ranks below 4. 3: "));
}

TEST_CASE("a rank that is stopped for less than the timeout is not lost",
          "[faults][ranks][.release]") {
  const Runs runs(recipe_of_twelve(R"({"parallel": {"timeout_seconds": 30},
    "hooks": [{"type": "fail_at",
               "options": {"event": "before_step", "step": 4, "how": "stop", "rank": 1}}]})"));
  const auto run = runs.start("stopped", {"--launch", "3"});
  pid_t stopped = 0;
  const auto state_of = [](pid_t process) {
    const std::string text = file_text("/proc/" + std::to_string(process) + "/stat");
    const size_t bracket = text.rfind(')');
    return bracket == std::string::npos ? '\0' : text.at(bracket + 2);
  };
  wait_until([&] {
    stopped = run->rank(1);
    return run->has_ended() || (stopped > 0 && state_of(stopped) == 'T');
  });
  REQUIRE_FALSE(run->has_ended());
  ::kill(stopped, SIGCONT);
  Runs::wait_for(*run, 0);
  CHECK(summary_of(runs.path("stopped"))["parameters_hash"] ==
        summary_of(runs.path("whole"))["parameters_hash"]);
  CHECK_FALSE(fs::exists(runs.path("stopped") / "errors"));
}

TEST_CASE("ranks wait long for each other before their first step, and not after it",
          "[faults][ranks][.release]") {
  const auto late_in = [](int step) {
    return recipe_of_twelve(R"({"parallel": {"timeout_seconds": 2},
      "train": {"steps": 4},
      "hooks": [{"type": "fail_at", "options": {"event": "after_loss", "how": "sleep", "rank": 1,
                 "wait_seconds": 6, "step": )" +
                            std::to_string(step) + "}}]}");
  };
  const ScratchFolder folder;
  const fs::path run_dir = folder.path() / "run";
  const auto run = [&](int late, const Words& more, int code) {
    Words words = {"--launch", "3"};
    words.insert(words.end(), more.begin(), more.end());
    StartedRun started(folder.write("recipe.json", late_in(late)), run_dir, words);
    Runs::wait_for(started, code);
    return started.out() + started.err();
  };
  // In the first step of a run, in the first one after a resume, and in a later one.
  run(1, {"--set", "train.exit_at_step=2"}, 75);
  CHECK(check_checkpoints(run_dir).step == 2);
  run(3, {"--set", "train.exit_at_step=3"}, 75);
  CHECK(check_checkpoints(run_dir).step == 3);
  fs::remove_all(run_dir);
  const std::string text = run(3, {}, 5);
  CHECK_THAT(text, contains_text("rank 1 is slow: others wait for it in "));
  CHECK_THAT(text, contains_text("in step 3, at after_loss, in hook \"fail_at\""));
}

}  // namespace tenon
