// SPDX-License-Identifier: Apache-2.0
//
// Features of texts, lists and numbers, in whole runs of the program.
#include <fstream>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

using nlohmann::json;

// Four numbers a sample of words, put side by side by their lists, and a label that they tell.
constexpr char kWords[] = R"({
  "model": {"options": {"in_features": 4}},
  "data": {"batch_size": 4, "train": {"type": "text_columns", "options": {"samples": 24}}},
  "features": [
    {"name": "ids", "from": "words", "do": [
      {"type": "hash"}, {"type": "mod", "options": {"buckets": 11}},
      {"type": "pad", "options": {"length": 4, "value": -1}}]},
    {"name": "x", "from": "ids", "do": [{"type": "cast", "options": {"dtype": "f32"}},
                                        {"type": "clip", "options": {"max": 8}}]}],
  "train": {"steps": 12, "log_every": 1}})";

std::string recipe(const std::string& patch = "{}") {
  return patched(small_recipe(kWords), patch);
}

// The records of a run that must end well.
std::vector<json> records_of(const HostRun& run) {
  INFO(run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == 0);
  return metric_records(run.file("metrics.jsonl"));
}

}  // namespace

TEST_CASE("a run with features is the same for any number of loader threads", "[recipes]") {
  const HostRun one(recipe());
  const std::vector<json> records = records_of(one);
  CHECK(records.size() == 12);
  CHECK_THAT(one.result().out, contains_text("5 steps in 5 calls a batch"));
  for (const char* const threads : {"2", "5"}) {
    const HostRun more(recipe(R"({"data": {"loader_threads": )" + std::string(threads) + "}}"));
    CHECK(records_of(more) == records);
    CHECK(more.summary()["parameters_hash"] == one.summary()["parameters_hash"]);
  }
  // The recipe that a run leaves has all that it needs.
  CHECK(records_of(HostRun(one.file("recipe.json"))) == records);
}

TEST_CASE("equal chains of several features are computed once in a run", "[recipes]") {
  const std::vector<json> plain = records_of(HostRun(recipe()));
  json twice = json::parse(recipe());
  for (int i = 0; i < 3; ++i) {
    json again = twice["features"][0];
    again["name"] = "again" + std::to_string(i);
    twice["features"].push_back(again);
  }
  twice["features"].push_back(
      {{"name", "query_id"}, {"from", "query"}, {"do", {{{"type", "hash"}}}}});
  const HostRun run(twice.dump());
  CHECK(records_of(run) == plain);
  CHECK_THAT(run.result().out, contains_text("6 steps in 5 calls a batch"));
}

TEST_CASE("features are made for evaluation sets too", "[recipes]") {
  const std::string eval = R"({"data": {"eval": {
      "same": {"type": "text_columns", "options": {"samples": 24}},
      "none": {"type": "text_columns", "options": {"samples": 5}}}}})";
  const HostRun run(recipe(eval));
  const std::vector<json> records = records_of(run);
  CHECK(records.back().contains("eval/same/loss"));
  CHECK(records.back().contains("eval/none/loss"));
  const HostRun lacks(recipe(R"({"data": {"eval": {"other": {"type": "text_columns",
      "options": {"user": "customer"}}}},
    "features": [{"name": "x", "from": "user", "do": [{"type": "cast", "options": {"dtype": "f32"}}]}]})"));
  CHECK(lacks.result().exit_code == 3);
  CHECK_THAT(lacks.result().err, contains_text("[data.bad_feature] dataset \"text_columns\""));
  CHECK_THAT(lacks.result().err,
             contains_text("it reads \"user\", which is neither a column of the dataset (customer, "
                           "query, words, genres, labels)"));
}

TEST_CASE("what a feature makes is held against what the model reads", "[recipes]") {
  const HostRun narrow(recipe(R"({"model": {"options": {"in_features": 5}}})"));
  CHECK(narrow.result().exit_code == 3);
  CHECK_THAT(narrow.result().err, contains_text("'x'"));
  const HostRun wrong(recipe(R"({"features": [
    {"name": "x", "from": "words", "do": [{"type": "mod", "options": {"buckets": 3}}]}]})"));
  CHECK(wrong.result().exit_code == 3);
  CHECK_THAT(wrong.result().err, contains_text("feature \"x\", step 1 (mod): "));
  CHECK_THAT(wrong.result().err, contains_text("hash text"));
  CHECK_THAT(wrong.result().err, contains_text("Inputs: text, lists"));
}

TEST_CASE("a value that a feature refuses ends the run with the place of it", "[recipes]") {
  const HostRun run(recipe(R"({"data": {"shuffle": false}, "features": [
    {"name": "cut", "from": "genres", "do": [
      {"type": "truncate", "options": {"length": 3, "check_length": true}}]},
    {"name": "n", "from": "cut", "do": [{"type": "length", "options": {"dtype": "f32"}}]},
    {"name": "x", "from": "words", "do": [
      {"type": "hash"}, {"type": "mod", "options": {"buckets": 11}},
      {"type": "pad", "options": {"length": 4}}, {"type": "cast", "options": {"dtype": "f32"}}]}]})"));
  CHECK(run.result().exit_code != 0);
  CHECK_THAT(run.result().err,
             contains_text("dataset \"text_columns\" (plugin org.tenon.test.text_columns"));
  CHECK_THAT(run.result().err, contains_text("feature \"cut\", step 1 (truncate): "));
  CHECK_THAT(run.result().err, contains_text("sample 3 of the batch has 4 entries"));
}

TEST_CASE("a column that runs backwards ends the run with dataset, column and sample",
          "[recipes]") {
  const HostRun run(recipe(R"({
    "data": {"shuffle": false, "train": {"options": {"broken_sample": 5}}},
    "features": [
    {"name": "n", "from": "genres", "do": [{"type": "length", "options": {"dtype": "f32"}}]},
    {"name": "x", "from": "words", "do": [
      {"type": "hash"}, {"type": "mod", "options": {"buckets": 11}},
      {"type": "pad", "options": {"length": 4}}, {"type": "cast", "options": {"dtype": "f32"}}]}]})"));
  CHECK(run.result().exit_code != 0);
  CHECK_THAT(run.result().err, contains_text("[data.bad_batch] dataset \"text_columns\""));
  CHECK_THAT(run.result().err, contains_text("column \"genres\", which a feature reads"));
  CHECK_THAT(run.result().err, contains_text("at sample 1 of the batch"));
}

TEST_CASE("text of files becomes the same ids in the reader and as a feature",
          "[recipes][.release]") {
  // A stream in two shards, whose last batches are short.
  const ScratchFolder folder;
  std::string rows = "word,y\n";
  for (int i = 0; i < 41; ++i) {
    const std::string square = std::to_string(i * i % 13);
    rows += "word " + square + "," + std::to_string(i * i % 13 % 3) + "\n";
  }
  const std::string path = folder.write("words.csv", rows).string();
  const auto run = [&](const std::string& function, bool is_in_reader, int threads) {
    json word = {{"name", "word"}, {"type", is_in_reader ? "ids" : "text"}};
    json steps = json::array();
    if (is_in_reader) {
      word["hash"] = function;
    } else {
      steps.push_back({{"type", "hash"}, {"options", {{"function", function}}}});
    }
    steps.push_back({{"type", "multi_hash"}, {"options", {{"buckets", {3}}}}});
    steps.push_back({{"type", "stack"}});
    steps.push_back({{"type", "cast"}, {"options", {{"dtype", "f32"}}}});
    const json labels = {{"name", "labels"}, {"column", "y"}, {"type", "ids"}};
    json recipe = json::parse(small_recipe(R"({"train": {"steps": null, "epochs": 3}})"));
    recipe["data"]["loader_threads"] = threads;
    recipe["data"]["train"] = {
        {"type", "columnar"},
        {"options", {{"paths", {path}}, {"columns", {word, labels}}, {"shards", 2}}}};
    recipe["features"] = json::array({{{"name", "x"}, {"from", "word"}, {"do", steps}}});
    const HostRun done(recipe.dump());
    return records_of(done);
  };
  for (const std::string function : {"farm", "murmur64", "murmur3"}) {
    const std::vector<json> in_reader = run(function, true, 1);
    CHECK(in_reader.size() >= 30);
    CHECK(run(function, false, 1) == in_reader);
    CHECK(run(function, false, 3) == in_reader);
  }
  CHECK(run("farm", false, 1) != run("murmur3", false, 1));
}

TEST_CASE("features are made of what a mix has put together", "[recipes]") {
  const std::string features = R"("features": [
    {"name": "z", "from": "x", "do": [{"type": "clip", "options": {"min": -0.5, "max": 0.5}}]}],
    "model": {"options": {"input": "z"}})";
  json mixed = json::parse(small_recipe("{" + features + "}"));
  mixed["data"]["train"] = json::parse(R"({"mix": [
    {"name": "a", "weight": 1, "type": "windows", "options": {"samples": 24}}]})");
  const std::vector<json> alone = records_of(HostRun(small_recipe("{" + features + "}")));
  const std::vector<json> of_mix = records_of(HostRun(mixed.dump()));
  REQUIRE(alone.size() == of_mix.size());
  for (std::size_t i = 0; i < alone.size(); ++i) {
    CHECK(alone[i]["loss"] == of_mix[i]["loss"]);
  }
  CHECK(alone != records_of(HostRun(small_recipe())));
}

TEST_CASE("the features recipe learns what it does not learn without them", "[recipes]") {
  const auto accuracy = [](const std::vector<std::string>& sets) {
    const ScratchFolder folder;
    std::vector<std::string> command = {host_program().string(),
                                        "--recipe",
                                        (source_dir() / "recipes/features.json").string(),
                                        "--plugin-dir",
                                        plugin_dir().string(),
                                        "--run-dir",
                                        (folder.path() / "run").string()};
    for (const std::string& set : sets) {
      command.insert(command.end(), {"--set", set});
    }
    const SubprocessResult result = run_subprocess(command);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    std::ifstream file(folder.path() / "run/summary.json");
    return json::parse(file)["metrics"]["eval/accuracy"].get<double>();
  };
  CHECK(accuracy({}) >= 0.85);
  // The same model on the numbers as they are.
  CHECK(accuracy({"model.options.input=spent_and_pages"}) < 0.75);
}

}  // namespace tenon
