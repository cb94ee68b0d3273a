// SPDX-License-Identifier: Apache-2.0
//
// A run that went wrong goes back to its last good checkpoint and leaves out the data since: from
// then on it is, to the bit, the run that never had that data.
#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Runs of the host in folders below one, each as often as is asked.
class Runs {
 public:
  SubprocessResult run(const std::string& name,
                       const json& recipe,
                       int num_ranks = 1,
                       const std::vector<std::string>& more = {}) const {
    const fs::path file = folder_.write(name + ".json", recipe.dump());
    return run_host(file, path(name), num_ranks, more);
  }

  fs::path path(const std::string& name) const { return folder_.path() / name; }
  json summary(const std::string& name) const {
    return json::parse(file_text(path(name) / "summary.json"));
  }
  // Without what depends on time and memory, and without how often it went back.
  std::vector<json> records(const std::string& name) const {
    auto records = metric_records(file_text(path(name) / "metrics.jsonl"));
    for (json& record : records) {
      record.erase("roll_backs");
      for (auto metric = record.begin(); metric != record.end();) {
        metric = metric.key().ends_with("/bytes") ? record.erase(metric) : std::next(metric);
      }
    }
    return records;
  }
  std::set<std::string> checkpoints(const std::string& name) const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(path(name) / "checkpoints")) {
      if (fs::exists(entry.path() / "COMMITTED")) {
        names.insert(entry.path().filename().string());
      }
    }
    return names;
  }

 private:
  ScratchFolder folder_;
};

json merged(json recipe, const std::string& patch) {
  recipe.merge_patch(json::parse(patch));
  return recipe;
}

// Windows of one step each: 8 samples. The samples of the 8th are spoilt, so that step 8 fails.
json windows_recipe(const std::string& patch = "{}") {
  json recipe = json::parse(small_recipe(R"({
    "train": {"steps": 12, "global_batch_size": 8, "non_finite": {"policy": "stop"}},
    "data": {"batch_size": 2, "train": {"options": {"spoilt_first": 56, "spoilt_last": 63}},
             "eval": {"type": "windows", "options": {"samples": 9}}},
    "optimizer": {"type": "adamw", "options": {"lr": 0.02}},
    "lr_scheduler": {"type": "cosine", "options": {"warmup_steps": 3}},
    "metrics": [{"type": "accuracy", "options": {"train": "window"}}],
    "eval": {"every_steps": 5},
    "checkpoint": {"every_steps": 3, "on_spike": "roll_back"}
  })"));
  json& options = recipe["data"]["train"]["options"];
  options.erase("samples");
  for (int w = 0; w < 20; ++w) {
    options["windows"].push_back({{"label", "w" + std::to_string(w)}, {"size", 8}});
  }
  recipe.merge_patch(json::parse(patch));
  return recipe;
}

// The same run, whose data is sound and lacks these windows.
json without_windows(json recipe, const std::vector<int>& windows) {
  json& options = recipe["data"]["train"]["options"];
  options.erase("spoilt_first");
  options.erase("spoilt_last");
  for (const int w : windows) {
    options["windows"][static_cast<size_t>(w)]["skip"] = true;
  }
  return recipe;
}

constexpr char kTable[] = R"({"model": {"type": "lookup_net", "options": null}, "tables": {
    "*": {"optimizer": {"type": "adam", "options": {"lr": 0.05}}},
    "sample_id": {"evict": {"unseen_steps": 4}}}})";

void check_equal(const Runs& runs, const std::string& name, const std::string& wanted) {
  CHECK(runs.records(name) == runs.records(wanted));
  const json a = runs.summary(name);
  const json b = runs.summary(wanted);
  for (const char* const key : {"parameters_hash", "steps", "updates", "samples"}) {
    INFO(key);
    CHECK(a[key] == b[key]);
  }
}

}  // namespace

TEST_CASE("a run that rolled back equals the run that never had the data", "[recipes][.release]") {
  const std::vector<std::string> patches = {
      "{}",
      R"({"checkpoint": {"staging": "stream", "keep_last": 1}})",
      R"({"optimizer": {"type": "sgd", "options": {"lr": 0.1}}, "train": {"precision": "bf16_params"}})",
      kTable};
  for (const std::string& patch : patches) {
    for (const int num_ranks : {1, 2}) {
      INFO(patch << "\n" << num_ranks << " ranks");
      const Runs runs;
      const json recipe = windows_recipe(patch);
      const SubprocessResult back = runs.run("back", recipe, num_ranks);
      INFO(back.out << back.err);
      REQUIRE(back.exit_code == 0);
      CHECK_THAT(back.err,
                 contains_text("step 8: the update of step 8 is non-finite: ") &&
                     contains_text("rolling back to") &&
                     contains_text("after step 6, and skipping the data since (1 of 3 times)"));
      const SubprocessResult never = runs.run("never", without_windows(recipe, {6, 7}), num_ranks);
      INFO(never.out << never.err);
      REQUIRE(never.exit_code == 0);
      check_equal(runs, "back", "never");
      const json summary = runs.summary("back");
      REQUIRE(summary["roll_backs"].size() == 1);
      CHECK(summary["roll_backs"][0]["step"] == 8);
      CHECK(summary["roll_backs"][0]["to"] == 6);
      CHECK_THAT(summary["roll_backs"][0]["checkpoint"].get<std::string>(),
                 contains_text("step-00000006"));
      CHECK_THAT(summary["roll_backs"][0]["why"].get<std::string>(), contains_text("non-finite"));
      CHECK(summary["windows"] == 14);  // of the data, which it has not gone back in
      CHECK(runs.summary("never")["roll_backs"].empty());
    }
  }
}

TEST_CASE("without windows the epoch goes on behind what was left out", "[recipes]") {
  const Runs runs;
  json recipe = windows_recipe(R"({"data": {"shuffle": false}, "metrics": null})");
  recipe["data"]["train"]["options"].erase("windows");
  recipe["data"]["train"]["options"]["samples"] = 160;
  // The oracle has the same samples in three windows, of which the second is left out.
  json oracle = without_windows(recipe, {});
  oracle["data"]["train"]["options"]["windows"] =
      json::parse(R"([{"size": 48}, {"size": 16, "skip": true}, {"size": 96}])");
  for (const int num_ranks : {1, 2}) {
    const std::string ranks = "-" + std::to_string(num_ranks);
    const SubprocessResult back = runs.run("back" + ranks, recipe, num_ranks);
    INFO(back.out << back.err);
    REQUIRE(back.exit_code == 0);
    const SubprocessResult never = runs.run("never" + ranks, oracle, num_ranks);
    INFO(never.out << never.err);
    REQUIRE(never.exit_code == 0);
    check_equal(runs, "back" + ranks, "never" + ranks);
    CHECK(runs.summary("back" + ranks)["roll_backs"].size() == 1);
  }
}

TEST_CASE("an epoch that a run goes back in ends where it does, and the next one has all",
          "[recipes]") {
  // 9 steps an epoch; it goes back from step 8 to 6, and 7 is the last step of the first epoch.
  const Runs runs;
  json recipe = windows_recipe(
      R"({"data": {"shuffle": false}, "metrics": null, "train": {"steps": null, "epochs": 2},
          "lr_scheduler": {"options": null, "type": "constant"}, "checkpoint": {"max_roll_backs": 2}})");
  recipe["data"]["train"]["options"].erase("windows");
  recipe["data"]["train"]["options"]["samples"] = 72;
  const SubprocessResult back = runs.run("back", recipe);
  INFO(back.out << back.err);
  REQUIRE(back.exit_code == 0);
  const json summary = runs.summary("back");
  // Step 7 is of the 9th batch, 8 to 14 of the next epoch's first 7; its 8th is spoilt again.
  REQUIRE(summary["roll_backs"].size() == 2);
  CHECK(summary["roll_backs"][1]["step"] == 15);
  CHECK(summary["roll_backs"][1]["to"] == 12);
  CHECK(summary["epochs"] == 2);
  CHECK(summary["steps"] == 13);
  CHECK(summary["reason"] == "reached 2 epochs");
}

TEST_CASE("a run that has gone back is stopped and started again as any other",
          "[recipes][.release]") {
  struct Case {
    const char* patch;
    std::vector<int> stops;
  };
  // Before it went wrong, at the first steps after, and some later; from the checkpoint that was
  // saved when it went back, and from those of the stops.
  for (const Case& one : {Case{R"({"checkpoint": {"at_end": false}})", {7, 8, 11}},
                          Case{R"({"checkpoint": {"at_end": true}})", {9, 10}}}) {
    for (const char* const model : {"{}", kTable}) {
      for (const int num_ranks : {1, 2}) {
        INFO(one.patch << model << "\n" << num_ranks << " ranks");
        const Runs runs;
        const json recipe = merged(windows_recipe(one.patch), model);
        REQUIRE(runs.run("whole", recipe, num_ranks).exit_code == 0);
        for (const int stop : one.stops) {
          const SubprocessResult result = runs.run(
              "parts", recipe, num_ranks, {"--set", "train.exit_at_step=" + std::to_string(stop)});
          INFO(stop << ": " << result.out << result.err);
          REQUIRE(result.exit_code == 75);
          CHECK(runs.summary("parts")["roll_backs"].size() == (stop > 7 ? 1 : 0));
        }
        REQUIRE(runs.run("parts", recipe, num_ranks).exit_code == 0);
        check_equal(runs, "parts", "whole");
        CHECK(runs.summary("parts")["roll_backs"] == runs.summary("whole")["roll_backs"]);
      }
    }
  }
}

TEST_CASE("what was gone back to stays, whatever else is kept", "[recipes]") {
  const Runs runs;
  // A row of three bad steps, each with a checkpoint of its own; one is kept.
  const json recipe = windows_recipe(R"({"train": {"steps": 17,
      "non_finite": {"policy": "skip", "max_consecutive": 3}},
    "data": {"train": {"options": {"spoilt_first": 88, "spoilt_last": 111}}},
    "checkpoint": {"every_steps": 1, "keep_last": 1}})");
  const SubprocessResult result = runs.run("back", recipe, 1, {"--set", "train.exit_at_step=14"});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 75);
  const json backs = runs.summary("back")["roll_backs"];
  REQUIRE(backs.size() == 1);
  CHECK(backs[0]["step"] == 14);
  CHECK(backs[0]["to"] == 11);
  const auto kept = runs.checkpoints("back");
  CHECK(kept.contains(backs[0]["checkpoint"].get<std::string>()));
  CHECK(kept.size() == 2);
  // The next part of the run keeps it, too.
  REQUIRE(runs.run("back", recipe).exit_code == 0);
  CHECK(runs.checkpoints("back").contains(backs[0]["checkpoint"].get<std::string>()));
  CHECK(runs.checkpoints("back").size() == 2);
  REQUIRE(runs.run("never", without_windows(recipe, {11, 12, 13})).exit_code == 0);
  check_equal(runs, "back", "never");
}

TEST_CASE("a policy that strikes keeps the last good checkpoint", "[recipes]") {
  const Runs runs;
  const json recipe = windows_recipe(R"({"train": {"steps": 17,
      "non_finite": {"policy": "skip", "max_consecutive": 3}},
    "data": {"train": {"options": {"spoilt_first": 88, "spoilt_last": 111}}},
    "checkpoint": {"every_steps": 1, "keep_last": 1, "on_spike": "continue"}})");
  const SubprocessResult result = runs.run("run", recipe);
  INFO(result.out << result.err);
  CHECK(result.exit_code == 6);
  std::set<std::string> steps;
  for (const std::string& name : runs.checkpoints("run")) {
    steps.insert(name.substr(0, 13));
  }
  CHECK(steps == std::set<std::string>{"step-00000011", "step-00000013"});
}

TEST_CASE("without a checkpoint of before, a run ends as it would have", "[recipes]") {
  const Runs runs;
  const SubprocessResult result =
      runs.run("run", windows_recipe(R"({"checkpoint": {"every_steps": 9}})"));
  INFO(result.out << result.err);
  CHECK(result.exit_code == 6);
  CHECK_THAT(result.err,
             contains_text("[train.non_finite] step 8: the update is non-finite") &&
                 contains_text("the run cannot go back: there is no checkpoint before step 8"));
  CHECK(runs.summary("run")["roll_backs"].empty());
  CHECK(runs.summary("run")["error_id"] == "train.non_finite");
}

TEST_CASE("a run may go back to before its first step", "[recipes]") {
  const Runs runs;
  const json recipe = windows_recipe(R"({"checkpoint": {"every_steps": 0, "at_start": true}})");
  const SubprocessResult result = runs.run("back", recipe);
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  REQUIRE(runs.run("never", without_windows(recipe, {0, 1, 2, 3, 4, 5, 6, 7})).exit_code == 0);
  check_equal(runs, "back", "never");
}

TEST_CASE("a run rolls back at most max_roll_backs times and then ends", "[recipes]") {
  // The model itself is wrong at step 12, whatever the data.
  const Runs runs;
  json recipe = windows_recipe(R"({"data": {"train": {"options": {"spoilt_last": -1}}},
    "checkpoint": {"max_roll_backs": 2}, "train": {"steps": 20}})");
  recipe["model"] = {{"type", "wrong_net"},
                     {"options", {{"first_step", 12}, {"last_step", 12}, {"part", "output"}}}};
  for (const int num_ranks : {1, 2}) {
    const std::string name = "run-" + std::to_string(num_ranks);
    const SubprocessResult result = runs.run(name, recipe, num_ranks);
    INFO(result.out << result.err);
    CHECK(result.exit_code == 6);
    CHECK_THAT(
        result.err,
        contains_text("it has done so 2 times, and /checkpoint/max_roll_backs allows no more"));
    const json backs = runs.summary(name)["roll_backs"];
    REQUIRE(backs.size() == 2);
    CHECK(backs[0]["to"] == 9);
    CHECK(backs[1]["to"] == 9);
    CHECK(runs.summary(name)["error_id"] == "train.non_finite");
  }
}

TEST_CASE("a good checkpoint that turns out to be damaged is passed over", "[recipes]") {
  const Runs runs;
  json recipe = windows_recipe(R"({"checkpoint": {"staging": "stream", "keep_last": 0}})");
  recipe["hooks"] =
      json::array({{{"type", "resize_file"},
                    {"options",
                     {{"path",
                       (runs.path("back") / "checkpoints/step-00000006_epoch-0_window-5" /
                        "rank-0-of-1.safetensors")
                           .string()},
                      {"size", 500},
                      {"step", 8}}}}});
  const SubprocessResult back = runs.run("back", recipe);
  INFO(back.out << back.err);
  REQUIRE(back.exit_code == 0);
  CHECK_THAT(back.err,
             contains_text("trying the checkpoint before it") && contains_text("after step 3"));
  recipe.erase("hooks");
  REQUIRE(runs.run("never", without_windows(recipe, {3, 4, 5, 6, 7})).exit_code == 0);
  check_equal(runs, "back", "never");
}

TEST_CASE("a hook's request rolls the run back at the end of a step", "[recipes]") {
  const auto requests = [](const std::string& event, int step) {
    return R"({"data": {"train": {"options": {"spoilt_last": -1}}},
      "hooks": [{"type": "event_trace"}, {"type": "request_at", "options": {"times": 1, "rank": 0,
        "requests": [{"event": ")" +
           event + R"(", "step": )" + std::to_string(step) + R"(, "request": "roll_back"}]}}]})";
  };
  struct Case {
    const char* event;
    int step;
    std::vector<int> skipped;
  };
  // A request before the first forward acts in its step, a later one in the next.
  for (const Case& one : {Case{"before_step", 8, {6, 7}},
                          Case{"after_step", 8, {6, 7, 8}},
                          Case{"after_evaluate", 10, {9, 10}},
                          Case{"after_step", 6, {3, 4, 5, 6}}}) {
    for (const int num_ranks : {1, 2}) {
      INFO(one.event << " " << one.step << ", " << num_ranks << " ranks");
      const Runs runs;
      const json recipe = windows_recipe(requests(one.event, one.step));
      const SubprocessResult back = runs.run("back", recipe, num_ranks);
      INFO(back.out << back.err);
      REQUIRE(back.exit_code == 0);
      CHECK_THAT(back.err, contains_text("request_at: " + std::string(one.event)));
      const json plain = merged(recipe, R"({"hooks": null})");
      REQUIRE(runs.run("never", without_windows(plain, one.skipped), num_ranks).exit_code == 0);
      check_equal(runs, "back", "never");
      // Hooks are told that the run has gone back.
      size_t num_loads = 0;
      for (const json& event : metric_records(file_text(runs.path("back") / "events.jsonl"))) {
        num_loads += event["event"] == "after_load" ? 1 : 0;
      }
      CHECK(num_loads == 1);
    }
  }
}

TEST_CASE("a pending request is not lost by a stop", "[recipes]") {
  const Runs runs;
  const json recipe = windows_recipe(R"({"data": {"train": {"options": {"spoilt_last": -1}}},
      "hooks": [{"type": "request_at", "options": {"times": 1,
        "requests": [{"event": "after_step", "step": 8, "request": "roll_back"}]}}]})");
  REQUIRE(runs.run("whole", recipe).exit_code == 0);
  REQUIRE(runs.run("parts", recipe, 1, {"--set", "train.exit_at_step=8"}).exit_code == 75);
  CHECK(runs.summary("parts")["roll_backs"].empty());
  REQUIRE(runs.run("parts", recipe, 1, {"--set", "hooks.0.options.rank=7"}).exit_code == 0);
  CHECK(runs.summary("parts")["roll_backs"] == runs.summary("whole")["roll_backs"]);
  check_equal(runs, "parts", "whole");
}

TEST_CASE("spike_guard sees a spike of the loss and leaves the data out", "[recipes]") {
  // What it sees at the end of step 8 acts at the end of step 9.
  const Runs runs;
  const json recipe = windows_recipe(R"({"data": {"train": {"options": {"spoilt_by": 200}}},
    "hooks": [{"type": "spike_guard", "options": {"window": 4, "warm_up": 4, "min_rise": 0.5}}]})");
  for (const int num_ranks : {1, 2}) {
    const std::string ranks = "-" + std::to_string(num_ranks);
    const SubprocessResult back = runs.run("back" + ranks, recipe, num_ranks);
    INFO(back.out << back.err);
    REQUIRE(back.exit_code == 0);
    CHECK_THAT(back.err, contains_text("step 9: spike_guard: the loss of step 8 is"));
    REQUIRE(runs.run("never" + ranks, without_windows(recipe, {6, 7, 8}), num_ranks).exit_code ==
            0);
    check_equal(runs, "back" + ranks, "never" + ranks);
    CHECK(runs.summary("never" + ranks)["roll_backs"].empty());
  }
  // Where there is nothing to go back to, the run does not go on with what is spoilt.
  const SubprocessResult none =
      runs.run("none", merged(recipe, R"({"checkpoint": {"every_steps": 20}})"));
  INFO(none.out << none.err);
  CHECK(none.exit_code == 5);
  CHECK_THAT(none.err,
             contains_text("[train.spike] spike_guard: the loss of step 8") &&
                 contains_text("there is no checkpoint before step 8"));
  const SubprocessResult refused =
      runs.run("refused", merged(recipe, R"({"checkpoint": {"on_spike": "continue"}})"));
  CHECK(refused.exit_code == 5);
  CHECK_THAT(refused.err, contains_text("[hook.bad_request]") && contains_text("on_spike"));
}

}  // namespace tenon
