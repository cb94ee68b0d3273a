// SPDX-License-Identifier: Apache-2.0
//
// Runs whose files of data, tokenizers or evaluation are other ones when they resume.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Twelve rows, from last to first if `is_reversed`: the same bytes in another order.
std::string flower_rows(bool is_reversed) {
  std::vector<std::string> rows;
  for (int i = 10; i < 22; ++i) {
    rows.push_back(std::to_string(i) + ",1," + std::to_string(i % 7) + ",2," +
                   std::to_string(i % 3) + "\n");
  }
  if (is_reversed) {
    std::ranges::reverse(rows);
  }
  std::string text = "a,b,c,d,y\n";
  for (const std::string& row : rows) {
    text += row;
  }
  return text;
}

json flower_data(const std::vector<std::string>& files) {
  return {{"type", "csv"},
          {"options",
           {{"files", files},
            {"fields",
             {{{"name", "x"}, {"columns", {"a..d"}}},
              {{"name", "labels"}, {"column", "y"}, {"dtype", "i64"}}}}}}};
}

// Two training files and one for evaluation, and a recipe that reads them.
struct Flowers {
  ScratchFolder folder;
  std::string first = folder.write("a.csv", flower_rows(false)).string();
  std::string second = folder.write("b.csv", flower_rows(true)).string();
  std::string eval = folder.write("eval.csv", flower_rows(false)).string();

  std::string recipe() const {
    json train = flower_data({first, second});
    train["options"]["samples"] = nullptr;  // an option of the dataset that it replaces
    return small_recipe(json({{"data", {{"train", train}, {"eval", flower_data({eval})}}},
                              {"train", {{"steps", 8}, {"exit_at_step", 4}}}})
                            .dump());
  }
};

// Resumes a run with more words. The run folder stays as it was, unless the resume succeeds.
SubprocessResult resumed(const HostRun& run, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"--recipe",
                                    (run.folder() / "recipe.json").string(),
                                    "--run-dir",
                                    run.run_dir().string(),
                                    "--set",
                                    "train.exit_at_step=null"};
  words.insert(words.end(), more.begin(), more.end());
  return run_host(words);
}

}  // namespace

TEST_CASE("a run resumes after its files were moved or touched, and is the same run", "[recipes]") {
  Flowers flowers;
  const HostRun whole(patched(flowers.recipe(), R"({"train": {"exit_at_step": null}})"));
  REQUIRE(whole.result().exit_code == 0);
  const HostRun run(flowers.recipe());
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 75);
  fs::create_directory(flowers.folder.path() / "moved");
  std::vector<std::string> moved;
  for (const std::string& file : {flowers.first, flowers.second}) {
    moved.push_back((flowers.folder.path() / "moved" / fs::path(file).filename()).string());
    fs::rename(file, moved.back());
    fs::last_write_time(moved.back(), fs::file_time_type::clock::now() - std::chrono::hours(9));
  }
  const SubprocessResult again =
      resumed(run, {"--set", "data.train.options.files=" + json(moved).dump()});
  INFO(again.err);
  REQUIRE(again.exit_code == 0);
  CHECK(run.summary()["parameters_hash"] == whole.summary()["parameters_hash"]);
}

TEST_CASE("a run does not resume on rows in another order, unless the recipe accepts it",
          "[recipes]") {
  Flowers flowers;
  const HostRun run(flowers.recipe());
  REQUIRE(run.result().exit_code == 75);
  const std::string recipe = run.file("recipe.json");
  const fs::path checkpoint = run.run_dir() / "checkpoints" / "step-00000004_epoch-0";
  const json sources = json::parse(file_text(checkpoint / "index.json"))["facts"]["sources"];
  REQUIRE(sources.size() == 2);
  CHECK(sources[0]["place"] == "/data/train");
  CHECK(sources[0]["files"][1][0] == "b.csv");
  CHECK(sources[1]["place"] == "/data/eval");
  std::ofstream(flowers.second) << flower_rows(false);
  const SubprocessResult refused = resumed(run);
  INFO(refused.err);
  CHECK(refused.exit_code == 3);
  CHECK_THAT(refused.err,
             contains_text("[data.changed]") &&
                 contains_text("/data/train: b.csv has other content (same size") &&
                 contains_text("set data.on_change to \"continue\""));
  CHECK(run.file("recipe.json") == recipe);

  const SubprocessResult accepted = resumed(run, {"--set", "data.on_change=continue"});
  INFO(accepted.err);
  REQUIRE(accepted.exit_code == 0);
  CHECK_THAT(accepted.err, contains_text("b.csv has other content"));
  CHECK(run.summary()["steps"] == 8);
  // The checkpoints after it have the files as they are now.
  const SubprocessResult later = resumed(run, {"--set", "train.steps=9"});
  INFO(later.err);
  CHECK(later.exit_code == 0);
}

TEST_CASE("a run does not resume with its files in another order", "[recipes]") {
  Flowers flowers;
  const HostRun run(flowers.recipe());
  REQUIRE(run.result().exit_code == 75);
  const json swapped = {flowers.second, flowers.first};
  const SubprocessResult refused =
      resumed(run, {"--set", "data.train.options.files=" + swapped.dump()});
  INFO(refused.err);
  CHECK(refused.exit_code == 3);
  CHECK_THAT(refused.err, contains_text("the files are in another order (file 1 is b.csv"));
}

TEST_CASE("a changed evaluation set is refused if evaluations are compared", "[recipes]") {
  Flowers flowers;
  const std::string keep_best = R"({"metric": "eval/loss", "mode": "min"})";
  const HostRun run(
      patched(flowers.recipe(), R"({"eval": {"every_steps": 2, "keep_best": )" + keep_best + "}}"));
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 75);
  std::ofstream(flowers.eval) << flower_rows(true);
  const SubprocessResult refused = resumed(run);
  INFO(refused.err);
  CHECK(refused.exit_code == 3);
  CHECK_THAT(refused.err, contains_text("/data/eval: eval.csv has other content"));
  // The recipe names the other data: that is on purpose, and a warning.
  const std::string other = flowers.folder.write("other.csv", flower_rows(true)).string();
  const SubprocessResult accepted =
      resumed(run, {"--set", "data.eval.options.files=" + json({other}).dump()});
  INFO(accepted.err);
  CHECK(accepted.exit_code == 0);
  CHECK_THAT(accepted.err, contains_text("other.csv has other content"));
}

TEST_CASE("a run does not resume with another tokenizer", "[recipes]") {
  const ScratchFolder folder;
  const std::string text = folder.write("text.txt", std::string(400, 'a') + "b c").string();
  const auto ranks_of = [](bool is_swapped) {
    std::string lines;
    for (int i = 0; i < 256; ++i) {  // base64 of each byte, with its rank
      const int byte = is_swapped && (i == 97 || i == 98) ? 195 - i : i;
      constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
      lines += std::string{kDigits[byte >> 2], kDigits[(byte & 3) << 4], '=', '='} + " " +
               std::to_string(i) + "\n";
    }
    return lines;
  };
  const fs::path ranks = folder.write("x.tiktoken", ranks_of(false));
  const json tokenizer = {{"type", "tiktoken"},
                          {"options", {{"file", ranks.string()}, {"pattern", "gpt2"}}}};
  const std::string recipe =
      small_language_recipe(json({{"model", {{"options", {{"vocab_size", 256}}}}},
                                  {"data",
                                   {{"train",
                                     {{"type", "text"},
                                      {"options",
                                       {{"path", text},
                                        {"sequence_length", 8},
                                        {"samples", nullptr},
                                        {"length", nullptr},
                                        {"tokenizer", tokenizer}}}}}}},
                                  {"train", {{"steps", 4}, {"exit_at_step", 2}}}})
                                .dump());
  const HostRun run(recipe);
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 75);
  std::ofstream(ranks) << ranks_of(true);
  const SubprocessResult refused = resumed(run);
  INFO(refused.err);
  CHECK(refused.exit_code == 3);
  CHECK_THAT(refused.err,
             contains_text("/data/train/options/tokenizer: x.tiktoken has other content"));
}

TEST_CASE("a run does not resume in a window whose file changed", "[recipes]") {
  Flowers flowers;
  const std::string recipe =
      patched(flowers.recipe(),
              R"({"data": {"eval": null, "train": {"options": {"windows": "file"}}},
          "train": {"steps": null, "windows": 2, "exit_at_step": 4}})");
  const HostRun run(recipe);
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 75);  // in the second window: three steps a window
  std::ofstream(flowers.first) << "a,b,c,d,y\n1,2,3,4,0\n";  // trained already
  const SubprocessResult again = resumed(run, {"--set", "train.exit_at_step=5"});
  INFO(again.err);
  REQUIRE(again.exit_code == 75);
  std::ofstream(flowers.second) << flower_rows(false);
  const SubprocessResult refused = resumed(run);
  INFO(refused.err);
  CHECK_THAT(refused.err,
             contains_text("[data.changed]") && contains_text("b.csv has other content"));
  CHECK(refused.exit_code != 0);
}

TEST_CASE("a missing file is reported with the folder in which its path starts", "[recipes]") {
  const auto failure = [](const std::string& path) {
    json train = flower_data({path});
    train["options"]["samples"] = nullptr;
    const HostRun run(small_recipe(json({{"data", {{"train", train}}}}).dump()));
    CHECK(run.result().exit_code != 0);
    return std::pair(run.result().err, run.folder().string());
  };
  const auto [missing, folder] = failure("a.csv");
  CHECK_THAT(missing, contains_text("cannot open " + folder + "/a.csv"));
  CHECK_THAT(missing, contains_text("relative paths in a recipe start at its folder, " + folder));
  CHECK_THAT(failure("~/a.csv").first,
             contains_text("~ does not stand for the home folder here") &&
                 contains_text("${ENV:HOME}/a.csv"));
}

}  // namespace tenon
