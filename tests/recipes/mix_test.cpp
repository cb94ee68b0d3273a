// SPDX-License-Identifier: Apache-2.0
//
// Datasets mixed by weight, run by the program.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

using nlohmann::json;

constexpr char kThree[] = R"({"mix": [
  {"name": "a", "weight": 5, "type": "windows", "options": {"samples": 24}},
  {"weight": 2, "type": "windows", "options": {"samples": 9}},
  {"name": "c", "weight": 1, "type": "windows", "options": {"samples": 100}}])";

std::string mix_recipe(const std::string& train, const std::string& more = "") {
  json recipe = json::parse(small_recipe());
  recipe["data"]["train"] = json::parse(train);
  recipe.merge_patch(json::parse("{" + more + "}"));
  return recipe.dump(2);
}

// Records without the figures of the mix.
std::vector<json> without_shares(std::vector<json> records) {
  for (json& record : records) {
    std::vector<std::string> names;
    for (const auto& [name, value] : record.items()) {
      if (name.starts_with("data/")) {
        names.push_back(name);
      }
    }
    for (const std::string& name : names) {
      record.erase(name);
    }
  }
  return records;
}

}  // namespace

TEST_CASE("each source of a mix is read in its share, and the figures say so", "[recipes]") {
  const HostRun run(mix_recipe(std::string(kThree) + "}", R"("train": {"steps": 60})"));
  INFO(run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == 0);
  const std::vector<json> records = run.metrics();
  REQUIRE(records.size() == 60);
  for (std::size_t step = 1; step <= records.size(); ++step) {
    const json& record = records[step - 1];
    const double samples = 4.0 * static_cast<double>(step);
    CHECK(record["data/a/samples"].get<double>() + record["data/windows-2/samples"].get<double>() +
              record["data/c/samples"].get<double>() ==
          samples);
    CHECK(std::abs(record["data/a/samples"].get<double>() - samples * 5 / 8) < 4);
    CHECK(std::abs(record["data/windows-2/samples"].get<double>() - samples * 2 / 8) < 4);
    CHECK(std::abs(record["data/c/samples"].get<double>() - samples / 8) < 4);
    CHECK(record["data/a/epochs"] == record["data/a/samples"].get<double>() / 24);
  }
  CHECK(run.summary()["metrics"]["data/a/epochs"].get<double>() > 6);
  CHECK_THAT(run.result().out, contains_text("data/a"));
  CHECK_THAT(run.result().out, contains_text("24 samples, 62.5% of the mix"));
  CHECK(run.summary()["components"].dump().find("data/windows-2") != std::string::npos);
}

TEST_CASE(
    "a mix trains to the same bits for any microbatch, threads and read-ahead, and from "
    "the frozen recipe",
    "[recipes][.release]") {
  const auto losses = [](const std::string& more) {
    const HostRun run(mix_recipe(std::string(kThree) + "}", more));
    INFO(run.result().err);
    REQUIRE(run.result().exit_code == 0);
    return run.metrics();
  };
  const std::string whole = R"("train": {"steps": 12, "precision": "fp64"})";
  const std::vector<json> want = losses(whole + R"(, "data": {"loader_threads": 1})");
  CHECK(losses(whole + R"(, "data": {"loader_threads": 3, "prefetch": 9})") == want);
  // Two microbatches of 2 hold the samples of one of 4: sums differ in rounding alone.
  const std::vector<json> halves = losses(R"("data": {"batch_size": 2},
                "train": {"steps": 12, "precision": "fp64", "gradient_accumulation": 2})");
  REQUIRE(halves.size() == want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    CHECK(halves[i]["data/a/samples"] == want[i]["data/a/samples"]);
    CHECK(halves[i]["loss"].get<double>() == Approx(want[i]["loss"].get<double>()).epsilon(1e-12));
  }
  const HostRun first(mix_recipe(std::string(kThree) + "}", whole));
  const HostRun again(first.file("recipe.json"));
  REQUIRE(again.result().exit_code == 0);
  CHECK(again.metrics() == first.metrics());
}

TEST_CASE("a mix of one source trains to the bits of that source", "[recipes]") {
  const std::string source = R"("type": "windows", "options": {"samples": 22})";
  const std::string train = R"("train": {"steps": null, "epochs": 3})";
  const HostRun plain(mix_recipe("{" + source + "}", train));
  REQUIRE(plain.result().exit_code == 0);
  for (const std::string when : {"repeat", "stop", "continue"}) {
    const HostRun mixed(mix_recipe(
        R"({"mix": [{"weight": 0.3, )" + source + R"(}], "when_one_ends": ")" + when + "\"}",
        train));
    INFO(mixed.result().err);
    REQUIRE(mixed.result().exit_code == 0);
    CHECK(without_shares(mixed.metrics()) == plain.metrics());
    CHECK(mixed.metrics().back()["data/windows-1/epochs"] == 3.0);
  }
}

TEST_CASE("epochs of a mix end as when_one_ends says", "[recipes]") {
  const auto summary = [](const std::string& when) {
    const HostRun run(mix_recipe(kThree + (R"(, "when_one_ends": ")" + when) + "\"}",
                                 R"("train": {"steps": null, "epochs": 1})"));
    INFO(run.result().err);
    REQUIRE(run.result().exit_code == 0);
    return run.summary();
  };
  const json whole = summary("continue");
  CHECK(whole["samples"] == 24 + 9 + 100);
  CHECK(whole["metrics"]["data/windows-2/samples"] == 9);
  CHECK(whole["metrics"]["data/c/epochs"] == 1.0);
  const json repeated = summary("repeat");  // until the 100 of c are through, at an eighth
  CHECK(std::abs(repeated["samples"].get<int>() - 800) <= 32);
  CHECK(repeated["metrics"]["data/c/epochs"] == 1.0);
  CHECK(repeated["metrics"]["data/a/epochs"].get<double>() > 19);
  const json stopped = summary("stop");  // when the 9 of the second are, at a quarter
  CHECK(std::abs(stopped["samples"].get<int>() - 36) <= 16);
  CHECK(stopped["metrics"]["data/windows-2/epochs"] == 1.0);
}

TEST_CASE("streams are mixed, and told apart from those that would begin anew", "[recipes]") {
  const std::string mix = R"({"mix": [
    {"weight": 2, "type": "counter_stream", "options": {"shard_sizes": [9, 14]}},
    {"weight": 1, "type": "windows", "options": {"samples": 11}}])";
  const HostRun run(
      mix_recipe(mix + R"(, "when_one_ends": "continue"})",
                 R"("data": {"loader_threads": 2}, "train": {"steps": null, "epochs": 2})"));
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 0);
  CHECK(run.summary()["samples"] == 2 * (9 + 14 + 11));
  CHECK(run.summary()["metrics"]["data/counter_stream-1/samples"] == 2 * (9 + 14));
  CHECK(run.summary()["metrics"]["data/windows-2/epochs"] == 2.0);
  CHECK_FALSE(run.summary()["metrics"].contains("data/counter_stream-1/epochs"));

  const HostRun repeated(mix_recipe(mix + "}"));
  CHECK(repeated.result().exit_code == 3);
  CHECK_THAT(repeated.result().err, contains_text("[data.bad_mix]"));
  CHECK_THAT(repeated.result().err, contains_text("\"stop\" or \"continue\""));
  CHECK_FALSE(std::filesystem::exists(repeated.run_dir()));
}

TEST_CASE("sources whose fields differ are named before anything begins", "[recipes]") {
  const HostRun run(mix_recipe(R"({"mix": [
    {"name": "web", "weight": 1, "type": "windows", "options": {"samples": 9}},
    {"name": "books", "weight": 1, "type": "windows", "options": {"samples": 9, "dim": 5}}]})"));
  CHECK(run.result().exit_code == 3);
  CHECK_THAT(run.result().err, contains_text("[data.bad_mix]"));
  CHECK_THAT(run.result().err, contains_text("field \"x\" is f32 [B, 4] in \"web\""));
  CHECK_THAT(run.result().err, contains_text("f32 [B, 5] in \"books\""));
  CHECK_FALSE(std::filesystem::exists(run.run_dir()));

  const HostRun windowed(mix_recipe(R"({"mix": [
    {"weight": 1, "type": "windows", "options": {"windows": [{"label": "u", "size": 5}]}}]})"));
  CHECK(windowed.result().exit_code == 3);
  CHECK_THAT(windowed.result().err, contains_text("has windows"));

  const HostRun empty(mix_recipe(R"({"mix": [
    {"name": "none", "weight": 1, "type": "windows", "options": {"samples": 0}}]})"));
  CHECK(empty.result().exit_code == 3);
  CHECK_THAT(empty.result().err, contains_text("[data.empty]"));
  CHECK_THAT(empty.result().err, contains_text("\"none\""));
}

TEST_CASE("a mix to evaluate on gives the figures of all its samples", "[recipes]") {
  const auto eval_loss = [](const std::string& sets) {
    const HostRun run(mix_recipe(R"({"type": "windows"})", R"("data": {"eval": )" + sets + "}"));
    INFO(run.result().err);
    REQUIRE(run.result().exit_code == 0);
    return run.summary()["metrics"];
  };
  const json one = eval_loss(R"({"type": "windows", "options": {"samples": 30}})");
  // The same samples twice, and so the same mean.
  const json twice = eval_loss(R"({"both": {"when_one_ends": "continue", "mix": [
    {"weight": 1, "type": "windows", "options": {"samples": 30}},
    {"weight": 3, "type": "windows", "options": {"samples": 30}}]}})");
  CHECK(twice["eval/both/loss"].get<double>() ==
        Approx(one["eval/loss"].get<double>()).epsilon(1e-5));
}

TEST_CASE("the recipe that shows a mix trains", "[recipes]") {
  const ScratchFolder folder;
  const auto run = run_subprocess({host_program().string(),
                                   "--recipe",
                                   (source_dir() / "recipes" / "mixture.json").string(),
                                   "--plugin-dir",
                                   plugin_dir().string(),
                                   "--run-dir",
                                   (folder.path() / "run").string(),
                                   "--set",
                                   "train.steps=10",
                                   "--set",
                                   "eval.batches=1",
                                   "--set",
                                   "model.options.num_hidden_layers=1"});
  INFO(run.out << run.err);
  REQUIRE(run.exit_code == 0);
  std::ifstream file(folder.path() / "run" / "summary.json");
  const json summary = json::parse(file);
  const json& metrics = summary["metrics"];
  CHECK(std::abs(metrics["data/new/samples"].get<double>() - 0.7 * 160) < 1);
  CHECK(std::abs(metrics["data/old/samples"].get<double>() - 0.3 * 160) < 1);
  CHECK(metrics["eval/old/loss"].get<double>() < 5.6);
  CHECK(metrics["eval/new/loss"].get<double>() < 5.6);
}

}  // namespace tenon
