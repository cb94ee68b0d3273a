// SPDX-License-Identifier: Apache-2.0
//
// A run that is stopped at any step and started again with the same command is the run that never
// stopped: parameters, records and events, on one rank and on two, and from one to the other.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

// Runs of one recipe, by the command line alone.
class Runs {
 public:
  explicit Runs(const std::string& recipe) {
    file_ = folder_.write("recipe.json", recipe).string();
  }

  // In the folder `name`, as the last `run` there left it.
  SubprocessResult run(const std::string& name,
                       int num_ranks = 1,
                       const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"timeout",
                                      "--signal=KILL",
                                      "120",
                                      host_program().string(),
                                      "--recipe",
                                      file_,
                                      "--plugin-dir",
                                      plugin_dir().string(),
                                      "--plugin-dir",
                                      test_plugin_dir().string(),
                                      "--run-dir",
                                      path(name).string()};
    if (num_ranks > 1) {
      words.insert(words.end(), {"--launch", std::to_string(num_ranks)});
    }
    words.insert(words.end(), more.begin(), more.end());
    return run_subprocess(words);
  }

  // Stops after each of `steps` and goes on, with so many ranks each time, to the end; the last
  // number of ranks is the end's.
  void run_in_parts(const std::string& name,
                    const std::vector<int>& steps,
                    const std::vector<int>& num_ranks) const {
    for (size_t i = 0; i <= steps.size(); ++i) {
      std::vector<std::string> more;
      if (i < steps.size()) {
        more = {"--set", "train.exit_at_step=" + std::to_string(steps[i])};
      }
      const SubprocessResult result = run(name, num_ranks[i], more);
      INFO("part " << i << ": " << result.out << result.err);
      REQUIRE(result.exit_code == (i < steps.size() ? 75 : 0));
    }
  }

  fs::path path(const std::string& name) const { return folder_.path() / name; }
  nlohmann::json summary(const std::string& name) const {
    return nlohmann::json::parse(file_text(path(name) / "summary.json"));
  }
  std::vector<nlohmann::json> records(const std::string& name) const {
    auto records = metric_records(file_text(path(name) / "metrics.jsonl"));
    for (auto& record : records) {
      for (auto figure = record.begin(); figure != record.end();) {
        figure = figure.key().ends_with("/bytes") ? record.erase(figure) : std::next(figure);
      }
    }
    return records;
  }
  std::vector<std::string> checkpoints(const std::string& name) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path(name) / "checkpoints")) {
      if (entry.is_directory()) {
        names.push_back(entry.path().filename().string());
      }
    }
    std::ranges::sort(names);
    return names;
  }

 private:
  ScratchFolder folder_;
  std::string file_;
};

std::string patched(const std::string& recipe, const std::string& patch) {
  nlohmann::json result = nlohmann::json::parse(recipe);
  result.merge_patch(nlohmann::json::parse(patch));
  return result.dump();
}

std::string saved_recipe(const std::string& patch = "{}") {
  return patched(small_recipe(R"({
    "train": {"steps": 14, "log_every": 2, "global_batch_size": 8},
    "data": {"batch_size": 2, "train": {"options": {"samples": 40}},
             "eval": {"type": "windows", "options": {"samples": 9}}},
    "optimizer": {"type": "adamw", "options": {"lr": 0.02}},
    "lr_scheduler": {"type": "cosine", "options": {"warmup_steps": 3}},
    "metrics": [{"type": "accuracy", "options": {"train": "window"}}],
    "eval": {"every_steps": 5},
    "checkpoint": {"every_steps": 3, "keep_last": 2}
  })"),
                 patch);
}

constexpr char kTable[] = R"({"model": {"type": "lookup_net", "options": null}, "tables": {
    "*": {"optimizer": {"type": "adam", "options": {"lr": 0.05}}},
    "sample_id": {"evict": {"unseen_steps": 4}}}})";

constexpr char kLanguage[] = R"({"name": "lm", "threads": {"compute": 1},
    "model": {"type": "llama", "options": {"vocab_size": 16, "hidden_size": 16,
      "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
      "num_key_value_heads": 2}},
    "data": {"batch_size": 1, "train": {"type": "token_rows", "options": {"samples": 26, "length": 8}}},
    "loss": {"type": "cross_entropy"}, "metrics": [{"type": "perplexity"}],
    "optimizer": {"type": "adamw", "options": {"lr": 0.01}},
    "train": {"steps": 12, "global_batch_size": 4, "recompute": "blocks", "log_every": 2},
    "checkpoint": {"every_steps": 4}})";

}  // namespace

TEST_CASE("a run that is stopped and started again is the run that never stopped", "[recipes]") {
  std::mt19937 random(7);
  const std::vector<std::string> recipes = {
      saved_recipe(),
      saved_recipe(R"({"checkpoint": {"staging": "stream", "every_steps": 1}})"),
      saved_recipe(kTable),
      patched(saved_recipe(kTable), R"({"checkpoint": {"staging": "stream"}})"),
      kLanguage,
      patched(kLanguage, R"({"train": {"precision": "bf16_params"}})")};
  for (const std::string& recipe : recipes) {
    for (const int num_ranks : {1, 2}) {
      const int stop = 1 + static_cast<int>(random() % 10);
      INFO(recipe << "\n" << num_ranks << " ranks, stopped after step " << stop);
      const Runs runs(recipe);
      const SubprocessResult whole = runs.run("whole", num_ranks);
      INFO(whole.out << whole.err);
      REQUIRE(whole.exit_code == 0);
      runs.run_in_parts("parts", {stop}, {num_ranks, num_ranks});
      const auto summary = runs.summary("parts");
      CHECK(summary["parameters_hash"] == runs.summary("whole")["parameters_hash"]);
      CHECK(summary["resumed"]["step"] == stop);
      CHECK(summary["samples"] == runs.summary("whole")["samples"]);
      CHECK(runs.records("parts") == runs.records("whole"));
      CHECK(runs.checkpoints("parts").back() == runs.checkpoints("whole").back());
    }
  }
}

TEST_CASE("a run goes on with other numbers of ranks", "[recipes][multi-rank]") {
  const std::vector<std::string> recipes = {
      saved_recipe(R"({"train": {"precision": "fp64"}})"),
      patched(saved_recipe(kTable), R"({"train": {"precision": "fp32"}})"),
      patched(kLanguage, R"({"train": {"precision": "fp64"}})")};
  for (const std::string& recipe : recipes) {
    INFO(recipe);
    // A mean over several steps begins anew where ranks change.
    const Runs runs(patched(recipe, R"({"train": {"log_every": 1}})"));
    const SubprocessResult whole = runs.run("whole");
    INFO(whole.out << whole.err);
    REQUIRE(whole.exit_code == 0);
    runs.run_in_parts("parts", {3, 7, 9}, {1, 2, 4, 1});
    CHECK(runs.summary("parts")["samples"] == runs.summary("whole")["samples"]);
    const auto wanted = runs.records("whole");
    const auto found = runs.records("parts");
    REQUIRE(found.size() == wanted.size());
    const bool is_fp64 = recipe.find("fp64") != std::string::npos;
    for (size_t i = 0; i < wanted.size(); ++i) {
      INFO(wanted[i] << " and " << found[i]);
      REQUIRE(found[i]["step"] == wanted[i]["step"]);
      for (const char* const figure : {"loss", "eval/loss"}) {
        if (wanted[i].contains(figure)) {
          const auto loss = wanted[i][figure].get<double>();
          CHECK(found[i][figure].get<double>() == Approx(loss).epsilon(is_fp64 ? 1e-10 : 1e-5));
        }
      }
    }
  }
}

TEST_CASE("a damaged checkpoint is passed over for the one before it", "[recipes]") {
  const Runs runs(saved_recipe());
  REQUIRE(runs.run("whole").exit_code == 0);
  for (const char* const damage : {"bits", "cut", "missing", "index"}) {
    INFO(damage);
    const std::string name = std::string("run-") + damage;
    REQUIRE(runs.run(name, 1, {"--set", "train.exit_at_step=7"}).exit_code == 75);
    const auto newest = runs.path(name) / "checkpoints" / runs.checkpoints(name).back();
    const auto shard = newest / "rank-0-of-1.safetensors";
    if (damage == std::string("bits")) {
      std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(-100, std::ios::end);
      file.write("spoilt", 6);
    } else if (damage == std::string("cut")) {
      fs::resize_file(shard, fs::file_size(shard) / 2);
    } else if (damage == std::string("missing")) {
      fs::remove(shard);
    } else {
      std::ofstream(newest / "index.json", std::ios::app) << " ";
    }
    const SubprocessResult result = runs.run(name);
    INFO(result.out << result.err);
    CHECK(result.exit_code == 0);
    CHECK_THAT(result.err, contains_text("the one before it is tried"));
    CHECK(runs.summary(name)["resumed"]["step"] == 6);
    CHECK(runs.summary(name)["parameters_hash"] == runs.summary("whole")["parameters_hash"]);
    CHECK(runs.records(name) == runs.records("whole"));
  }
}

TEST_CASE("where no checkpoint is sound the run does not begin anew by itself", "[recipes]") {
  const Runs runs(saved_recipe(R"({"checkpoint": {"keep_last": 1}})"));
  REQUIRE(runs.run("run", 1, {"--set", "train.exit_at_step=7"}).exit_code == 75);
  const auto only = runs.path("run") / "checkpoints" / runs.checkpoints("run").back();
  fs::remove(only / "rank-0-of-1.safetensors");
  const SubprocessResult result = runs.run("run");
  INFO(result.out << result.err);
  CHECK(result.exit_code == 5);
  CHECK_THAT(result.err,
             contains_text("[checkpoint.none_sound]") && contains_text("is missing") &&
                 contains_text("--resume"));
  CHECK(fs::exists(only / "index.json"));  // nothing of it is thrown away
}

TEST_CASE("what may change of a recipe does, and what may not is refused with both values",
          "[recipes]") {
  const Runs runs(saved_recipe());
  REQUIRE(runs.run("run", 1, {"--set", "train.exit_at_step=5"}).exit_code == 75);
  const std::string records = file_text(runs.path("run") / "metrics.jsonl");
  const std::string recipe = file_text(runs.path("run") / "recipe.json");
  const SubprocessResult refused =
      runs.run("run", 1, {"--set", "model.options.hidden=[16]", "--set", "train.steps=20"});
  INFO(refused.out << refused.err);
  CHECK(refused.exit_code == 3);
  CHECK_THAT(refused.err,
             contains_text("[resume.recipe_changed]") &&
                 contains_text("/models/main/options/hidden") && contains_text("16"));
  CHECK(file_text(runs.path("run") / "metrics.jsonl") == records);  // nothing is lost by it
  CHECK(file_text(runs.path("run") / "recipe.json") == recipe);
  const SubprocessResult warned =
      runs.run("run", 1, {"--set", "train.steps=20", "--set", "optimizer.options.lr=0.03"});
  INFO(warned.out << warned.err);
  CHECK(warned.exit_code == 0);
  CHECK_THAT(warned.err,
             contains_text("/optimizer") && contains_text("0.02") && contains_text("0.03"));
  CHECK(runs.summary("run")["steps"] == 20);
}

TEST_CASE("one checkpoint that was named is gone on from, in a run of its own", "[recipes]") {
  const Runs runs(saved_recipe(R"({"checkpoint": {"keep_last": 0}})"));
  REQUIRE(runs.run("first").exit_code == 0);
  const auto checkpoints = runs.checkpoints("first");
  REQUIRE(checkpoints.size() == 5);
  const auto path = runs.path("first") / "checkpoints" / checkpoints[1];
  const SubprocessResult result = runs.run("second", 1, {"--resume", path.string()});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(runs.summary("second")["resumed"]["step"] == 6);
  CHECK(runs.summary("second")["parameters_hash"] == runs.summary("first")["parameters_hash"]);
  const SubprocessResult none = runs.run("third", 1, {"--resume", runs.path("").string()});
  CHECK(none.exit_code != 0);
  CHECK_THAT(none.err, contains_text("there is no finished checkpoint"));
}

}  // namespace tenon
