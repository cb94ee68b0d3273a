// SPDX-License-Identifier: Apache-2.0
//
// Metrics in whole runs: figures of evaluations and of training, and recipes that are refused.
#include <cmath>
#include <filesystem>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using nlohmann::json;

// Training and evaluation on the same 22 samples, six batches an epoch, the last of two. The rate
// changes the parameters by next to nothing.
std::string recipe_of(const std::string& metrics, const std::string& patch = "{}") {
  json recipe = json::parse(small_recipe(R"({
    "data": {"shuffle": false, "train": {"options": {"samples": 22}},
             "eval": {"type": "windows", "options": {"samples": 22}}},
    "optimizer": {"options": {"lr": 1e-12}},
    "train": {"precision": "fp64"}
  })"));
  recipe["metrics"] = json::parse(metrics);
  recipe.merge_patch(json::parse(patch));
  return recipe.dump();
}

void check_done(const HostRun& run) {
  INFO(run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == 0);
}

}  // namespace

TEST_CASE("the options of a metric may name a component", "[recipes]") {
  const HostRun run(recipe_of(R"([{"type": "four_states", "inputs": {"x": "logits"},
    "options": {"words": {"type": "byte"}}}])"));
  check_done(run);
  CHECK(run.metrics().back()["eval/four_states/number"] == 22 * 3);
}

TEST_CASE("figures of metrics are in the evaluation's record, line and summary", "[recipes]") {
  const HostRun run(recipe_of(R"([{"type": "accuracy"}, {"type": "perplexity"},
    {"name": "top2", "type": "accuracy", "options": {"top_k": 2}}])"));
  check_done(run);
  const json last = run.metrics().back();
  CHECK(last["eval/perplexity"].get<double>() ==
        Approx(std::exp(last["eval/loss"].get<double>())).epsilon(1e-12));
  const double accuracy = last["eval/accuracy"];
  CHECK(accuracy * 22 == Approx(std::round(accuracy * 22)).margin(1e-12));
  CHECK(last["eval/top2"].get<double>() >= accuracy);
  CHECK(run.summary()["metrics"]["eval/accuracy"] == accuracy);
  CHECK(run.summary()["metrics"]["eval/perplexity"] == last["eval/perplexity"]);
  char text[64];
  std::snprintf(text, sizeof(text), "  eval/accuracy %.4f  eval/perplexity ", accuracy);
  CHECK_THAT(run.result().out, contains_text(text));
  CHECK_FALSE(last.contains("accuracy"));
  CHECK(json::parse(run.file("recipe.json"))["metrics"][0] ==
        json::parse(R"({"name": "accuracy", "type": "accuracy", "inputs": {},
          "options": {"ignore_index": -100, "top_k": 1, "train": "never"}})"));

  const HostRun other(recipe_of(R"([{"type": "accuracy"}, {"type": "perplexity"}])",
                                R"({"data": {"batch_size": 5}, "train": {"steps": 5}})"));
  check_done(other);
  CHECK(other.metrics().back()["eval/accuracy"] == accuracy);
}

TEST_CASE("a metric counts in training over the period that it is told", "[recipes]") {
  const HostRun run(recipe_of(
      R"([{"type": "accuracy", "options": {"train": "run"}},
          {"name": "recent", "type": "accuracy", "options": {"train": "step"}},
          {"name": "window", "type": "accuracy", "options": {"train": "window"}}])",
      R"({"train": {"steps": 12, "log_every": 3}})"));
  check_done(run);
  const auto records = run.metrics();  // steps 1, 3, 6, 9, 12, and the evaluation
  REQUIRE(records.size() == 6);
  const double whole = records[5]["eval/accuracy"];
  CHECK(records[5]["eval/recent"] == whole);
  CHECK(records[2]["step"] == 6);
  // Two epochs of the same data: twice the same counts.
  CHECK(records[2]["accuracy/run"].get<double>() == Approx(whole).epsilon(1e-15));
  CHECK(records[4]["accuracy/run"].get<double>() == Approx(whole).epsilon(1e-15));
  CHECK(records[2]["window/window"] == records[2]["accuracy/run"]);
  CHECK(records[4]["window/window"].get<double>() == Approx(whole).epsilon(1e-15));
  // The first half of an epoch has 12 samples, the second 10.
  const double first = records[3]["recent"];
  const double second = records[4]["recent"];
  CHECK((12 * first + 10 * second) / 22 == Approx(whole).epsilon(1e-15));
  CHECK(records[3]["window/window"] == first);
  CHECK(records[2]["recent"] == second);
  CHECK(run.summary()["metrics"]["recent"] == second);
}

TEST_CASE("a metric does not change what is trained", "[recipes]") {
  const std::string patch = R"({"optimizer": {"options": {"lr": 0.1}}})";
  const HostRun without(recipe_of("[]", patch));
  const HostRun with(recipe_of(R"([{"type": "perplexity", "options": {"train": "step"}}])", patch));
  check_done(without);
  check_done(with);
  for (size_t i = 0; i < 6; ++i) {
    CHECK(with.metrics()[i]["loss"] == without.metrics()[i]["loss"]);
  }
}

TEST_CASE("a metric of several figures, without libtorch, counts in runs as well", "[recipes]") {
  const HostRun run(recipe_of(
      R"([{"type": "four_states", "inputs": {"x": "logits"}, "options": {"train": true}}])"));
  check_done(run);
  const auto records = run.metrics();
  CHECK(records[5]["four_states/number/run"] == 22 * 3);
  CHECK(records[5]["four_states/number"] == 2 * 3);
  CHECK(records.back()["eval/four_states/number"] == 22 * 3);
  CHECK(records.back()["eval/four_states/total"].get<double>() ==
        Approx(records[5]["four_states/total/run"].get<double>()).epsilon(1e-9));
}

TEST_CASE("metrics that do not fit are found before the run, and leave no folder",
          "[recipes][.release]") {
  const std::pair<const char*, const char*> cases[] = {
      {R"([{"type": "accuracy", "inputs": {"labels": "clicked"}}])", "[metric.unknown_input]"},
      {R"([{"type": "accuracy", "inputs": {"label": "y"}}])", "[metric.unknown_input]"},
      {R"([{"type": "accuracy", "inputs": {"logits": "main.scores"}}])", "[metric.unknown_input]"},
      {R"([{"type": "perplexity", "inputs": {"labels": "x"}}])", "[metric.input_mismatch]"},
      {R"([{"type": "accuracy"}, {"type": "accuracy"}])", "[recipe.duplicate_name]"},
      {R"([{"type": "accuracy", "name": "loss"}])", "[recipe.duplicate_name]"},
      {R"([{"type": "accuracie"}])", "did you mean \"accuracy\""},
      {R"([{"type": "accuracy", "options": {"top_k": 0}}])", "[recipe.out_of_range]"},
  };
  for (const auto& [metrics, id] : cases) {
    const HostRun run(recipe_of(metrics));
    INFO(metrics << "\n" << run.result().err);
    CHECK(run.result().exit_code == 3);
    CHECK_THAT(run.result().err, contains_text(id));
    CHECK_FALSE(std::filesystem::exists(run.run_dir()));
  }
}

}  // namespace tenon
