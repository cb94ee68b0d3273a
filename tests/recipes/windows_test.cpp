// SPDX-License-Identifier: Apache-2.0
//
// Runs over data that comes in windows: which are read, which are waited for, which are left out.
#include <algorithm>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// `windows` is a JSON list of the test dataset's windows.
std::string windows_recipe(const std::string& windows,
                           const std::string& more = "",
                           const std::string& train = R"("epochs": 1)") {
  return small_recipe(R"({"data": {"train": {"options": {"windows": )" + windows + more +
                      R"(}}}, "train": {"steps": null, )" + train + "}}");
}

// Three windows of the test dataset, of which those that `kept` does not name are skipped.
std::string three_windows(const std::string& kept = "abc") {
  nlohmann::json windows = nlohmann::json::array();
  for (const auto& [label, size] : {std::pair{"a", 12}, {"b", 20}, {"c", 9}}) {
    windows.push_back(
        {{"label", label}, {"size", size}, {"skip", kept.find(label) == std::string::npos}});
  }
  return windows.dump();
}

// The records that hold a figure.
std::vector<nlohmann::json> records_with(const std::vector<nlohmann::json>& records,
                                         const std::string& name) {
  std::vector<nlohmann::json> found;
  for (const auto& record : records) {
    if (record.contains(name)) {
      found.push_back(record);
    }
  }
  return found;
}

// The metrics of an evaluation on one of the three windows, after training on so many of them.
nlohmann::json metrics_after(int num_windows, const std::string& window) {
  const std::string eval = R"({"metrics": [{"type": "accuracy"}],
    "data": {"eval": {"type": "windows", "options": {"windows": )" +
                           three_windows(window) + "}}}}";
  const HostRun run(
      patched(windows_recipe(
                  three_windows(), "", "\"windows\": " + std::to_string(std::max(1, num_windows))),
              eval),
      num_windows == 0 ? std::vector<std::string>{"--eval-only"} : std::vector<std::string>());
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 0);
  return run.summary()["metrics"];
}

}  // namespace

TEST_CASE("windows that are not there yet are waited for", "[recipes]") {
  const std::string late = R"([{"label": "a", "size": 8, "comes_at": 2}, {"label": "b", "size": 4},
    {"label": "c", "size": 4, "comes_at": 5}])";
  const HostRun run(windows_recipe(late));
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 0);
  CHECK(run.summary()["windows"] == 3);
  CHECK(run.summary()["steps"] == 4);
  const std::string there =
      R"([{"label": "a", "size": 8}, {"label": "b", "size": 4}, {"label": "c", "size": 4}])";
  const HostRun same(windows_recipe(there));
  CHECK(same.summary()["parameters_hash"] == run.summary()["parameters_hash"]);
}

TEST_CASE("whoever waits for a window ends on a signal, and when the time is up", "[recipes]") {
  const std::string never =
      R"([{"label": "a", "size": 8}, {"label": "b", "size": 4, "comes_at": 1000000000}])";
  const HostRun signal(windows_recipe(never, R"(, "terminate_when_asked": 3)"));
  INFO(signal.result().err);
  CHECK(signal.result().exit_code == 75);
  CHECK_THAT(signal.last_line(), contains_text("stopped early: received SIGTERM"));
  CHECK(signal.summary()["windows"] == 1);

  const HostRun late(windows_recipe(never, "", R"("minutes": 0.002)"));
  CHECK(late.result().exit_code == 0);
  CHECK_THAT(late.last_line(), contains_text("done: reached 0.002 minutes"));
}

TEST_CASE("an evaluation does not wait for windows that are not there yet", "[recipes]") {
  const HostRun run(small_recipe(R"({"train": {"steps": 1}, "data": {"eval": {"type": "windows",
    "options": {"windows": [{"label": "a", "size": 8},
                            {"label": "b", "size": 4, "comes_at": 1000000000}]}}}})"));
  INFO(run.result().err);
  CHECK(run.result().exit_code == 0);
  CHECK(run.summary()["metrics"].contains("eval/loss"));
}

TEST_CASE("a window that comes twice is read once", "[recipes]") {
  const HostRun run(windows_recipe(R"([{"label": "a", "size": 8, "id": 7},
    {"label": "b", "size": 4, "id": 8}, {"label": "a again", "size": 8, "id": 7}])"));
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 0);
  CHECK(run.summary()["windows"] == 2);
  CHECK_THAT(run.result().err, contains_text("the window a again (id 7) appears a second time"));
}

TEST_CASE("progressive validation: each window is evaluated on before it is trained on",
          "[recipes]") {
  const std::string plain =
      patched(windows_recipe(three_windows()), R"({"metrics": [{"type": "accuracy"}]})");
  const HostRun run(patched(plain, R"({"eval": {"next_window": true}})"));
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 0);
  const auto records = records_with(run.metrics(), "next/loss");
  REQUIRE(records.size() == 3);
  const std::vector<std::string> labels = {"a", "b", "c"};
  const std::vector<double> sizes = {12, 20, 9};
  double loss = 0;
  double accuracy = 0;
  double samples = 0;
  for (size_t k = 0; k < 3; ++k) {
    INFO("window " << labels[k]);
    const auto expected = metrics_after(static_cast<int>(k), labels[k]);
    CHECK(records[k]["window"] == labels[k]);
    CHECK(records[k]["next/loss"] == expected["eval/loss"]);
    CHECK(records[k]["next/accuracy"] == expected["eval/accuracy"]);
    loss += sizes[k] * records[k]["next/loss"].get<double>();
    accuracy += sizes[k] * records[k]["next/accuracy"].get<double>();
    samples += sizes[k];
    CHECK(records[k]["next/loss/run"].get<double>() == Approx(loss / samples).epsilon(1e-12));
    CHECK(records[k]["next/accuracy/run"].get<double>() ==
          Approx(accuracy / samples).epsilon(1e-12));
  }
  CHECK(run.summary()["metrics"]["next/loss"] == records[2]["next/loss"]);
  const HostRun without(plain);
  CHECK(run.summary()["parameters_hash"] == without.summary()["parameters_hash"]);
  CHECK(run.summary()["steps"] == without.summary()["steps"]);
}

TEST_CASE("progressive validation of streams reads each window twice", "[recipes]") {
  const std::string plain = R"({"train": {"steps": null, "epochs": 1}, "data": {"train": {
    "type": "counter_stream", "options": {"shard_sizes": [5, 9], "windows": 3, "samples": null}}}})";
  const HostRun run(patched(small_recipe(plain), R"({"eval": {"next_window": true}})"));
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 0);
  CHECK(records_with(run.metrics(), "next/loss").size() == 3);
  const HostRun without(small_recipe(plain));
  CHECK(run.summary()["parameters_hash"] == without.summary()["parameters_hash"]);
  CHECK(run.summary()["samples"] == 3 * 14);
}

TEST_CASE("a window of evaluation goes along with each window of training", "[recipes][.release]") {
  for (const std::string when : {"before", "after"}) {
    INFO(when);
    const std::string recipe =
        patched(windows_recipe(three_windows()),
                R"({"metrics": [{"type": "accuracy"}], "eval": {"with_window": ")" + when +
                    R"("}, "data": {"eval": {"type": "windows", "options": {"windows": )" +
                    three_windows() + "}}}}");
    const HostRun run(recipe);
    INFO(run.result().err);
    REQUIRE(run.result().exit_code == 0);
    const auto records = records_with(run.metrics(), "eval/loss/run");
    REQUIRE(records.size() == 3);
    for (size_t k = 0; k < 3; ++k) {
      const auto expected = metrics_after(static_cast<int>(k) + (when == "after" ? 1 : 0),
                                          std::string(1, static_cast<char>('a' + k)));
      CHECK(records[k]["eval/loss"] == expected["eval/loss"]);
      CHECK(records[k]["eval/accuracy"] == expected["eval/accuracy"]);
    }
  }
}

TEST_CASE("an evaluation on all of a set leaves the window that goes along in its place",
          "[recipes]") {
  const auto recipe = [](const std::string& more) {
    return patched(windows_recipe(three_windows()),
                   R"({"eval": {"with_window": "after", "at_end": false)" + more +
                       R"(}, "data": {"eval": {"type": "windows", "options": {"windows": )" +
                       three_windows() + "}}}}");
  };
  const HostRun plain(recipe(""));
  const HostRun run(recipe(R"(, "every_steps": 2)"));
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 0);
  const auto found = records_with(run.metrics(), "eval/loss/run");
  CHECK(found == records_with(plain.metrics(), "eval/loss/run"));
  CHECK(found.size() == 3);
}

TEST_CASE("the epoch ends where no window is left to evaluate on", "[recipes]") {
  const HostRun run(
      patched(windows_recipe(three_windows()),
              R"({"eval": {"with_window": "after"}, "data": {"eval": {"type": "windows",
                  "options": {"windows": )" +
                  three_windows("ac") + "}}}}"));
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 0);
  CHECK(run.summary()["windows"] == 2);
  CHECK_THAT(run.result().err, contains_text("the epoch ends before window c, which is skipped"));
}

TEST_CASE("windows are left out that the recipe names, and counted", "[recipes]") {
  const HostRun run(
      patched(windows_recipe(three_windows()), R"({"data": {"skip_windows": ["[ab]", 7]}})"));
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 0);
  CHECK(run.summary()["windows"] == 1);
  CHECK(run.summary()["samples"] == 9);
  CHECK(run.summary()["windows_left_out"]["skipped"] == 2);
  CHECK(run.summary()["last_window"] == "c");
  CHECK_THAT(run.result().err,
             contains_text("/data/skip_windows: no window of the epoch has the label or id 7"));

  const HostRun all(
      patched(windows_recipe(three_windows()), R"({"data": {"skip_windows": ["*"]}})"));
  CHECK(all.result().exit_code == 3);
  CHECK_THAT(all.result().err, contains_text("3 of its windows were skipped, as requested"));
}

TEST_CASE("an empty window is told and counted, and the last record of a window is labelled",
          "[recipes]") {
  const HostRun run(
      patched(windows_recipe(R"([{"label": "a", "size": 6}, {"label": "none", "size": 0},
                                          {"label": "b", "size": 10}])"),
              R"({"train": {"log_every": 0}, "eval": {"next_window": true}})"));
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 0);
  CHECK(run.summary()["windows"] == 3);
  CHECK(run.summary()["windows_left_out"]["empty"] == 1);
  CHECK_THAT(run.file("log.txt"), contains_text("window none is empty"));
  CHECK_THAT(run.file("log.txt"), contains_text("step 2  window a  loss "));
  const auto records = records_with(run.metrics(), "lr");
  REQUIRE(records.size() == 3);  // the first step, and the last one of each window
  CHECK(records[1]["step"] == 2);
  CHECK(records[1]["window"] == "a");
  CHECK(records[2]["step"] == 5);
  CHECK(records[2]["window"] == "b");
}

TEST_CASE("what asks for windows needs data that has them", "[recipes]") {
  const HostRun next(small_recipe(R"({"eval": {"next_window": true}})"));
  CHECK(next.result().exit_code == 3);
  CHECK_THAT(
      next.result().err,
      contains_text("[recipe.contradiction]") && contains_text("/eval/next_window: dataset"));
  const HostRun skip(small_recipe(R"({"data": {"skip_windows": ["a"]}})"));
  CHECK(skip.result().exit_code == 3);
  CHECK_THAT(skip.result().err, contains_text("/data/skip_windows: dataset"));
  const HostRun with(patched(windows_recipe(three_windows()),
                             R"({"eval": {"with_window": "after"},
                                 "data": {"eval": {"type": "windows"}}})"));
  CHECK(with.result().exit_code == 3);
  CHECK_THAT(with.result().err, contains_text("no dataset of data.eval has windows"));
}

}  // namespace tenon
