// SPDX-License-Identifier: Apache-2.0
//
// The recipe ngram-memory.json, shortened, and runs of small models with a memory of n-grams:
// against the same model without one, on two ranks, after a stop, with packed rows, and in
// generation.
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/recipes/ranks_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

using nlohmann::json;

// The recipe with a smaller model and fewer steps.
json short_recipe(const std::string& patch = "{}") {
  json recipe = json::parse(file_text(source_dir() / "recipes" / "ngram-memory.json"),
                            nullptr,
                            /*allow_exceptions=*/true,
                            /*ignore_comments=*/true);
  for (const char* const set : {"train", "eval"}) {
    recipe["data"][set]["options"]["path"] = (source_dir() / "data" / "kjv.txt").string();
    recipe["data"][set]["options"]["sequence_length"] = 64;
  }
  recipe.merge_patch(json::parse(R"({
    "threads": {"compute": 1},
    "model": {"options": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}},
    "data": {"batch_size": 8},
    "lr_scheduler": {"options": {"warmup_steps": 5}},
    "train": {"steps": 120, "log_every": 10},
    "eval": {"batches": 20}})"));
  recipe.merge_patch(json::parse(patch));
  return recipe;
}

double held_out_loss(const json& recipe) {
  const HostRun run(recipe.dump());
  INFO(run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == 0);
  return run.summary()["metrics"]["eval/loss"].get<double>();
}

// A small model with a memory, over the lines of a text.
std::string lines_recipe(const std::filesystem::path& text, const std::string& patch = "{}") {
  return patched(R"({"name": "lines", "threads": {"compute": 1},
      "model": {"type": "llama", "options": {"vocab_size": 256, "hidden_size": 32,
          "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
          "max_position_embeddings": 96,
          "memory": {"columns": ["n.0", "n.1"], "dim": 8, "layers": [0, 1]}}},
      "data": {"batch_size": 64, "train": {"type": "lines", "options": {"path": ")" +
                     text.string() + R"("}}},
      "features": [{"name": "n", "from": "input_ids", "do": [{"type": "ngram"}]}],
      "tables": {"*": {"optimizer": {"type": "adagrad", "options": {"lr": 0.1}}}},
      "loss": {"type": "cross_entropy"},
      "optimizer": {"type": "adamw", "options": {"lr": 0.01}},
      "train": {"epochs": 6, "log_every": 1}})",
                 patch);
}

constexpr char kText[] =
    "in the beginning\nwas the word\nand the word was\nwith\nthe light shines in the dark\n"
    "and the dark\nhas not\novercome it\nthe word was with\nthe light\n";

std::vector<double> losses_of(const std::string& recipe) {
  const HostRun run(recipe);
  INFO(run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == 0);
  std::vector<double> losses;
  for (const json& record : run.metrics()) {
    if (record.contains("loss")) {
      losses.push_back(record["loss"].get<double>());
    }
  }
  return losses;
}

void check_losses_near(const std::vector<double>& found, const std::vector<double>& want) {
  REQUIRE(found.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i, found[i], want[i]);
    CHECK(std::abs(found[i] - want[i]) <= 2e-5 * std::abs(want[i]));
  }
}

}  // namespace

TEST_CASE("a memory of n-grams lowers the held-out loss of the same llama", "[recipes]") {
  json without = short_recipe(R"({"tables": null, "features": null})");
  without["model"]["options"].erase("memory");
  const double base = held_out_loss(without);
  const double with = held_out_loss(short_recipe());
  CAPTURE(base, with);
  CHECK(with < base - 0.1);
}

TEST_CASE("the base line of the recipe's comment is a llama without a memory", "[recipes]") {
  const HostRun run(
      short_recipe(R"({"train": {"steps": 2}})").dump(),
      {"--set", "model.options.memory=null", "--set", "tables={}", "--set", "features=[]"});
  INFO(run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == 0);
  CHECK_FALSE(run.metrics().back().contains("tables/rows"));
}

TEST_CASE("a run with a memory resumes to the bit", "[recipes]") {
  const std::string recipe =
      short_recipe(R"({"train": {"steps": 12, "log_every": 1}, "checkpoint": {}})").dump();
  const ScratchFolder folder;
  const auto file = folder.write("recipe.json", recipe);
  const auto run = [&](const std::string& name, const std::vector<std::string>& more, int code) {
    const SubprocessResult result = run_host(file, folder.path() / name, 1, more);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == code);
  };
  run("whole", {}, 0);
  run("parts", {"--set", "train.exit_at_step=5"}, 75);
  run("parts", {}, 0);
  const auto summary = [&](const std::string& name) {
    return json::parse(file_text(folder.path() / name / "summary.json"));
  };
  CHECK(summary("parts")["resumed"]["step"] == 5);
  CHECK(summary("parts")["parameters_hash"] == summary("whole")["parameters_hash"]);
  CHECK(records_of(folder.path() / "parts") == records_of(folder.path() / "whole"));
}

TEST_CASE("two ranks train a memory as one rank does", "[recipes][multi-rank]") {
  const std::string patch = R"({"train": {"steps": 10, "log_every": 1, "global_batch_size": 8}})";
  const RanksRun one(short_recipe(patch).dump(), 1);
  INFO(one.text());
  REQUIRE(one.exit_codes() == std::vector<int>{0});
  const RanksRun two(short_recipe(patched(patch, R"({"data": {"batch_size": 4}})")).dump(), 2);
  INFO(two.text());
  REQUIRE(two.exit_codes() == std::vector<int>{0, 0});
  const auto records = one.metrics();
  const auto others = two.metrics();
  REQUIRE(others.size() == records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    for (const char* const name : {"loss", "eval/loss", "tables/rows", "tables/refused"}) {
      if (records[i].contains(name)) {
        CAPTURE(i, name);
        CHECK(others[i][name].get<double>() ==
              Approx(records[i][name].get<double>()).epsilon(2e-5));
      }
    }
  }
}

TEST_CASE("packed samples have the n-grams of a row each", "[recipes]") {
  const ScratchFolder folder;
  const auto text = folder.write("text.txt", kText);
  const std::vector<double> losses = losses_of(lines_recipe(text));
  REQUIRE(losses.size() == 6);
  CHECK(losses.back() < 0.7 * losses.front());
  for (const char* const packing :
       {R"({"length": 48})", R"({"length": 33, "strategy": "greedy"})"}) {
    CAPTURE(packing);
    check_losses_near(
        losses_of(lines_recipe(
            text, R"({"data": {"train": {"packing": )" + std::string(packing) + "}}}")),
        losses);
  }
}

TEST_CASE("a trained memory continues texts, and is not exported as a llama", "[recipes]") {
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += "the quick brown fox. ";
  }
  const ScratchFolder folder;
  const auto file = folder.write("recipe.json", lines_recipe(folder.write("text.txt", text), R"({
        "data": {"batch_size": 8, "train": {"type": "text",
                                            "options": {"sequence_length": 48, "stride": 11}}},
        "train": {"epochs": null, "steps": 60}, "checkpoint": {}})"));
  const auto run_dir = folder.path() / "run";
  const SubprocessResult trained = run_host(file, run_dir);
  INFO(trained.out << trained.err);
  REQUIRE(trained.exit_code == 0);
  const auto generate = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"--generate", "--prompt", "the quick br", "--max-tokens", "30"});
    return run_host(more);
  };
  const SubprocessResult continued = generate({"--run-dir", run_dir.string()});
  INFO(continued.err);
  CHECK(continued.exit_code == 0);
  CHECK(continued.out == "own fox. the quick brown fox. \n");
  CHECK_THAT(continued.err, !contains_text("no caches"));

  // Ids of another seed have no rows: the text is another one, so the rows matter.
  std::string checkpoint;
  for (const auto& entry : std::filesystem::directory_iterator(run_dir / "checkpoints")) {
    checkpoint = entry.path().string();
  }
  const auto from = [&](const std::string& features) {
    return generate({"--from", checkpoint, "--recipe", file.string(), "--set", features});
  };
  const SubprocessResult forgotten = from(R"(features.0.do.0.options={"seed": 1})");
  INFO(forgotten.err);
  CHECK(forgotten.exit_code == 0);
  CHECK(forgotten.out != continued.out);
  const SubprocessResult missing = from("features=[]");
  CHECK(missing.exit_code == 4);
  CHECK_THAT(missing.err,
             contains_text("[generate.not_possible]") &&
                 contains_text("looks up rows by the column 'n.0', which no feature of the recipe "
                               "computes from token ids"));

  const SubprocessResult exported =
      run_host({"--export", "hf", (folder.path() / "hf").string(), "--run-dir", run_dir.string()});
  CHECK(exported.exit_code != 0);
  CHECK_THAT(exported.err, contains_text("the layout \"hf\" has no memory of n-grams"));
}

}  // namespace tenon
