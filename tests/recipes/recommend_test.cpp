// SPDX-License-Identifier: Apache-2.0
//
// Models that recommend, on real ratings, and the recipes of them as they are shipped but shorter.
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

// A run of a recipe of recipes/, with what --set changes.
struct RecipeRun {
  RecipeRun(const std::string& recipe,
            const std::vector<std::string>& sets,
            const std::vector<std::string>& arguments = {}) {
    std::vector<std::string> words = {host_program().string(),
                                      "--recipe",
                                      (source_dir() / "recipes" / recipe).string(),
                                      "--plugin-dir",
                                      plugin_dir().string(),
                                      "--run-dir",
                                      (folder.path() / "run").string()};
    for (const std::string& set : sets) {
      words.insert(words.end(), {"--set", set});
    }
    words.insert(words.end(), arguments.begin(), arguments.end());
    result = run_subprocess(words);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
  }

  nlohmann::json summary() const {
    return nlohmann::json::parse(file_text(folder.path() / "run/summary.json"));
  }
  double metric(const std::string& name) const {
    const nlohmann::json metrics = summary()["metrics"];
    CAPTURE(name, metrics.dump());
    REQUIRE(metrics.contains(name));
    return metrics[name].get<double>();
  }
  std::vector<nlohmann::json> records() const {
    return metric_records(file_text(folder.path() / "run/metrics.jsonl"));
  }

  ScratchFolder folder;
  SubprocessResult result;
};

}  // namespace

TEST_CASE("the movielens-deepfm recipe learns what users like", "[recipes][.release]") {
  const RecipeRun run("movielens-deepfm.json", {"train.epochs=2"});
  CHECK(run.metric("eval/auc") > 0.75);
  CHECK(run.metric("test/auc") > 0.75);
  CHECK(run.summary()["best"]["metric"] == "eval/auc");
}

TEST_CASE("the movielens-stream recipe predicts each week before it learns from it", "[recipes]") {
  const RecipeRun run("movielens-stream.json", {"train.windows=6"});
  size_t num_weeks = 0;
  for (const nlohmann::json& record : run.records()) {
    num_weeks += record.contains("next/auc") ? 1 : 0;
  }
  CHECK(num_weeks == 6);
  CHECK(run.metric("next/auc") > 0.6);
}

TEST_CASE("the movielens-din recipe learns from what users liked before", "[recipes][.release]") {
  const RecipeRun run("movielens-din.json", {"train.epochs=2"});
  CHECK(run.metric("test/auc") > 0.74);
}

TEST_CASE("the criteo-like recipe learns a part of a truth that is known", "[recipes][.release]") {
  const RecipeRun run("criteo-like.json", {"train.steps=30"});
  CHECK(run.metric("eval/truth") == Approx(0.886).margin(0.01));
  CHECK(run.metric("eval/auc") > 0.6);
  CHECK(run.metric("eval/auc") < run.metric("eval/truth"));
}

TEST_CASE("a model with several outputs has a loss for each, with its own count", "[recipes]") {
  nlohmann::json recipe = nlohmann::json::parse(R"({
    "name": "tasks", "seed": 1, "threads": {"compute": 1},
    "model": {"type": "deepfm", "options": {
      "categorical": ["user_id", "item_id"], "dim": 4, "hidden": [8], "outputs": ["like", "stars"]}},
    "data": {"batch_size": 256},
    "tables": {"*": {"optimizer": {"type": "adagrad", "options": {"lr": 0.1}}}},
    "losses": [
      {"name": "like", "type": "bce_with_logits", "inputs": {"logits": "like", "labels": "label"}},
      {"name": "stars", "type": "mse", "weight": 0.25, "inputs": {"logits": "stars", "targets": "rating"}}],
    "optimizer": {"type": "adam", "options": {"lr": 1e-2}},
    "train": {"steps": 100, "log_every": 1}})");
  recipe["data"]["train"] = {
      {"type", "movielens"},
      {"options", {{"path", (source_dir() / "data/ml-100k").string()}, {"split", "train"}}}};
  const HostRun run(recipe.dump());
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 0);
  const auto records = run.metrics();
  REQUIRE(records.size() == 100);
  for (const nlohmann::json& record : records) {
    CHECK(record["loss"].get<double>() ==
          Approx(record["loss/like"].get<double>() + 0.25 * record["loss/stars"].get<double>())
              .epsilon(1e-6));
  }
  CHECK(records[99]["loss/stars"].get<double>() < 0.3 * records[0]["loss/stars"].get<double>());
  CHECK(records[99]["loss/like"].get<double>() < records[0]["loss/like"].get<double>());
}

// Two towers for MovieLens, of 64 pairs a microbatch.
nlohmann::json towers() {
  nlohmann::json recipe = nlohmann::json::parse(R"({
    "name": "towers", "seed": 1, "threads": {"compute": 1},
    "model": {"type": "two_tower", "options": {
      "query": {"categorical": ["user_id", "age", "occupation"]},
      "item": {"categorical": ["item_id", "release_year"], "ragged": ["genres"]},
      "hidden": [32], "width": 16}},
    "data": {"batch_size": 64},
    "tables": {"*": {"optimizer": {"type": "adagrad", "options": {"lr": 0.1}}}},
    "loss": {"type": "in_batch_softmax", "options": {"temperature": 0.2, "log_q_from_batch": true},
             "inputs": {"item_ids": "item_id"}},
    "optimizer": {"type": "adam", "options": {"lr": 3e-3}},
    "train": {"steps": 400, "log_every": 50}})");
  recipe["data"]["train"] = {{"type", "movielens"},
                             {"options",
                              {{"path", (source_dir() / "data/ml-100k").string()},
                               {"split", "train"},
                               {"keep", "liked"}}}};
  return recipe;
}

// A query finds its item among 64 by chance with a loss of ln 64 = 4.16.
TEST_CASE("two towers learn which films go with which users", "[recipes]") {
  const HostRun run(towers().dump());
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 0);
  CHECK(run.metrics().front()["loss"].get<double>() > 4.1);
  CHECK(run.metrics().back()["loss"].get<double>() < 4.05);
}

TEST_CASE("a loss within a batch is summed over microbatches only where the recipe says so",
          "[recipes][.release]") {
  const auto run_with = [](const std::string& train, const std::vector<std::string>& arguments) {
    nlohmann::json recipe = towers();
    recipe["train"].merge_patch(nlohmann::json::parse(train));
    return HostRun(recipe.dump(), arguments);
  };
  for (const std::string train : {R"({"steps": 2, "gradient_accumulation": 4})",
                                  R"({"steps": 2, "global_batch_size": 256})"}) {
    const HostRun refused = run_with(train, {});
    CHECK(refused.result().exit_code == 3);
    CHECK_THAT(refused.result().err, contains_text("[loss.not_additive]"));
    CHECK_THAT(refused.result().err, contains_text("in_batch_softmax"));
    CHECK_THAT(refused.result().err, contains_text("the 4 microbatches of a step"));
    CHECK_FALSE(std::filesystem::exists(refused.run_dir()));
  }
  const HostRun ranks = run_with(R"({"steps": 2})", {"--launch", "2"});
  CHECK(ranks.result().exit_code == 3);
  CHECK_THAT(ranks.result().err, contains_text("[loss.not_additive]"));

  // A step of four microbatches has the mean of their means for its loss.
  const auto losses = [&](const std::string& train, const std::vector<std::string>& arguments) {
    const HostRun run = run_with(train, arguments);
    INFO(run.result().out << run.result().err);
    REQUIRE(run.result().exit_code == 0);
    std::vector<double> values;
    for (const nlohmann::json& record : run.metrics()) {
      if (record.contains("loss")) {
        values.push_back(record["loss"].get<double>());
      }
    }
    return values;
  };
  // Of one rank and of two, whose microbatches have the same pairs.
  const std::string each = R"("log_every": 1, "normalize": "microbatch"})";
  const auto one_rank = losses(R"({"steps": 2, "gradient_accumulation": 4, )" + each, {});
  REQUIRE(one_rank.size() == 2);
  const auto two_ranks =
      losses(R"({"steps": 2, "gradient_accumulation": 2, )" + each, {"--launch", "2"});
  REQUIRE(two_ranks.size() == 2);
  CHECK(one_rank[0] == Approx(two_ranks[0]).epsilon(1e-5));
  CHECK(one_rank[1] == Approx(two_ranks[1]).epsilon(1e-4));
}

}  // namespace tenon
