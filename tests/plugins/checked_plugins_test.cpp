// SPDX-License-Identifier: Apache-2.0
//
// Each first-party plugin, and the plugins of the guide and the templates that other tests lack,
// passes --check-plugin. Components with required options are created as in a small recipe.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/members.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace fs = std::filesystem;

namespace tenon {
namespace {

constexpr int kNumRunners = 2;

// The group of the file. Tests of the checker itself cover loading, options and lifecycle.
constexpr char kFileGroup[] = "static";

// A recipe of clicks with few ids.
std::string click_recipe(const std::string& model) {
  return R"({
    "name": "clicks", "threads": {"compute": 1},
    "model": )" +
         model + R"(,
    "data": {"batch_size": 8, "train": {"type": "criteo_like", "options": {"samples": 64}}},
    "tables": {"*": {"optimizer": {"type": "rowwise_adagrad"}}},
    "loss": {"type": "bce_with_logits", "inputs": {"labels": "label"}},
    "optimizer": {"type": "adamw"}, "train": {"steps": 2}})";
}

constexpr char kClickColumns[] =
    R"("categorical": ["c0..c2"], "dense": [{"name": "dense", "size": 13}], "dim": 4)";

std::string click_model(const std::string& type, const std::string& more) {
  return click_recipe(R"({"type": ")" + type + R"(", "options": {)" + kClickColumns + more + "}}");
}

// Each feature with its required options.
std::string feature_recipe() {
  nlohmann::json features = nlohmann::json::array();
  for (const auto& [type, options] :
       std::map<std::string, std::string>{{"bucketize", R"({"boundaries": [0.2, 0.5, 3]})"},
                                          {"cast", R"({"dtype": "f32"})"},
                                          {"clip", R"({"min": 0.3, "max": 4})"},
                                          {"mod", R"({"buckets": 5})"},
                                          {"multi_hash", R"({"buckets": [7]})"},
                                          {"pad", R"({"length": 2})"},
                                          {"truncate", R"({"length": 2})"}}) {
    features.push_back({{"name", "made_" + type},
                        {"from", "labels"},
                        {"do", {{{"type", type}, {"options", nlohmann::json::parse(options)}}}}});
  }
  return small_recipe(nlohmann::json{{"features", features}}.dump());
}

nlohmann::json dataset_patch(const std::string& type, const nlohmann::json& options) {
  nlohmann::json patch = options;
  patch["samples"] = nullptr;  // of the dataset that it replaces
  return {{"data", {{"train", {{"type", type}, {"options", patch}}}}}};
}

// The recipe of a plugin whose components need options; "" for all others. `folder` is empty.
std::string recipe_of(const std::string& plugin, const fs::path& folder) {
  static const std::set<std::string> features = {
      "bucketize", "cast", "clip", "mod", "multi_hash", "pad", "truncate"};
  const std::string source = source_dir().string();
  if (features.contains(plugin)) {
    return feature_recipe();
  }
  if (plugin == "folder_storage") {
    const nlohmann::json use = {{"type", plugin}, {"options", {{"folder", folder.string()}}}};
    return small_recipe(
        nlohmann::json{{"checkpoint", {{"at_end", true}, {"storage", use}}}}.dump());
  }
  if (plugin == "mlp") {
    return small_recipe();
  }
  if (plugin == "llama") {
    return small_language_recipe();
  }
  if (plugin == "deepfm") {
    return click_model(plugin, R"(, "hidden": [8, 6])");
  }
  if (plugin == "dlrm") {
    return click_model(plugin, R"(, "bottom": [8, 4], "top": [6])");
  }
  if (plugin == "dcn_v2") {
    return click_model(plugin, R"(, "cross_layers": 2, "hidden": [8])");
  }
  if (plugin == "two_tower") {
    return click_recipe(R"({"type": "two_tower", "options": {"query": {"categorical": ["c0", "c1"]},
        "item": {"categorical": ["c2"]}, "dim": 4, "hidden": [6], "width": 5}})");
  }
  if (plugin == "csv") {
    const nlohmann::json field = {{"name", "x"}, {"columns", {"spent", "pages"}}};
    return small_recipe(
        dataset_patch("csv",
                      {{"files", {source + "/recipes/data/visits-train.csv"}}, {"fields", {field}}})
            .dump());
  }
  if (plugin == "text") {
    return small_recipe(dataset_patch("text",
                                      {{"path", source + "/README.md"},
                                       {"sequence_length", 16},
                                       {"tokenizer", {{"type", "byte"}}}})
                            .dump());
  }
  if (plugin == "text_samples") {
    nlohmann::json patch = dataset_patch(
        "text", {{"path", source + "/README.md"}, {"length", nullptr}, {"sequence_length", 16}});
    patch["model"]["options"]["vocab_size"] = 256;
    patch["hooks"] = {{{"type", plugin}, {"options", {{"prompts", {"a"}}, {"every_steps", 2}}}}};
    return small_language_recipe(patch.dump());
  }
  if (plugin == "hf") {
    const nlohmann::json golden =
        nlohmann::json::parse(file_text(source + "/tests/parity/tokenizers_golden.json"));
    nlohmann::json tokenizer = golden["cases"][0]["tokenizer"];
    tokenizer["model"] = golden["models"]["byte_bpe"];
    const fs::path file = folder / "tokenizer.json";
    std::ofstream(file) << tokenizer;
    const nlohmann::json use = {{"type", "hf"}, {"options", {{"file", file.string()}}}};
    return small_recipe(
        dataset_patch(
            "text", {{"path", source + "/README.md"}, {"sequence_length", 16}, {"tokenizer", use}})
            .dump());
  }
  if (plugin == "columnar") {
    return small_recipe(
        dataset_patch("columnar",
                      {{"paths", {source + "/tests/plugins/columnar/basic.parquet"}},
                       {"columns", {{{"name", "age"}}}}})
            .dump());
  }
  if (plugin == "movielens" || plugin == "din") {
    const fs::path data = fs::path(source) / "data/ml-100k";
    if (!fs::exists(data)) {
      return "";
    }
    nlohmann::json recipe = nlohmann::json::parse(file_text(source + "/recipes/movielens-din.json"),
                                                  nullptr,
                                                  /*allow_exceptions=*/true,
                                                  /*ignore_comments=*/true);
    recipe["data"].erase("eval");
    recipe["data"].erase("test");
    recipe["data"]["train"]["options"]["path"] = data.string();
    recipe.erase("eval");
    recipe.erase("hooks");
    return recipe.dump();
  }
  return "";
}

struct CheckedPlugin {
  fs::path file;
  std::string group;
  int exit_code = -1;
  std::string text = {};
  nlohmann::json checks = {};
};

void run_checks(CheckedPlugin& plugin) {
  const ScratchFolder folder;
  std::vector<std::string> words = {host_program().string(),
                                    "--check-plugin",
                                    plugin.file.string(),
                                    "--json",
                                    "--seed",
                                    "1",
                                    "--only",
                                    plugin.group,
                                    "--plugin-dir",
                                    plugin_dir().string()};
  const std::string recipe = recipe_of(plugin.file.stem().string(), folder.path());
  if (!recipe.empty()) {
    words.insert(words.end(),
                 {"--recipe",
                  folder.write("recipe.json", recipe).string(),
                  "--plugin-dir",
                  test_plugin_dir().string()});
  }
  const SubprocessResult process = run_subprocess(words, {});
  plugin.exit_code = process.exit_code;
  plugin.text = process.err;
  const nlohmann::json report = nlohmann::json::parse(process.out, nullptr, false);
  if (report.is_object()) {
    plugin.checks = report["checks"];
  }
}

void run_all(std::vector<CheckedPlugin>& plugins) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> runners;
  for (int i = 0; i < kNumRunners; ++i) {
    runners.emplace_back([&] {
      for (std::size_t job = next++; job < plugins.size(); job = next++) {
        try {
          run_checks(plugins[job]);
        } catch (const std::exception& error) {
          plugins[job].text = error.what();
        }
      }
    });
  }
}

// The kinds of the plugins in the folders, by file.
std::map<std::string, std::set<std::string>> kinds_by_file(const std::vector<fs::path>& folders) {
  std::vector<std::string> words = {host_program().string(), "--list-plugins", "--json"};
  for (const fs::path& folder : folders) {
    words.insert(words.end(), {"--plugin-dir", folder.string()});
  }
  const SubprocessResult process = run_subprocess(words, {});
  INFO(process.err);
  REQUIRE(process.exit_code == 0);
  std::map<std::string, std::set<std::string>> kinds;
  for (const nlohmann::json& plugin : nlohmann::json::parse(process.out)) {
    for (const nlohmann::json& component : plugin["components"]) {
      kinds[plugin["file"].get<std::string>()].insert(component["kind"].get<std::string>());
    }
  }
  return kinds;
}

}  // namespace

TEST_CASE("each first-party plugin passes the checks of its kind", "[plugins][check][members]") {
  std::map<std::string, std::vector<CheckedPlugin>> by_group;
  for (const auto& [file, kinds] : kinds_by_file({plugin_dir(), test_plugin_dir()})) {
    const fs::path path = file;
    const bool is_ours = path.parent_path() == plugin_dir();
    const std::string name = path.stem().string();
    if (!is_ours && name != "memory_storage" && name != "folder_storage") {
      continue;
    }
    by_group[kFileGroup].push_back({.file = path, .group = kFileGroup});
    for (const std::string& kind : kinds) {
      by_group[kind].push_back({.file = path, .group = kind});
    }
  }
  REQUIRE(by_group[kFileGroup].size() > 50);
  std::vector<CheckedPlugin> plugins;
  const ScratchFolder folder;
  for (auto& [group, of_group] : by_group) {
    // Those that need options pass checks only with a recipe. The first member has one, if any has.
    std::ranges::stable_partition(of_group, [&](const CheckedPlugin& plugin) {
      return !recipe_of(plugin.file.stem().string(), folder.path()).empty();
    });
    std::ranges::move(members_of(std::move(of_group), 2), std::back_inserter(plugins));
  }
  run_all(plugins);
  std::set<std::string> passed;
  for (const CheckedPlugin& plugin : plugins) {
    INFO(plugin.file << " " << plugin.group << "\n" << plugin.text << plugin.checks.dump(1));
    CHECK(plugin.exit_code == 0);
    REQUIRE(plugin.checks.is_array());
    for (const nlohmann::json& check : plugin.checks) {
      CHECK(check["outcome"] != "failed");
      if (check["outcome"] == "passed") {
        passed.insert(check["name"].get<std::string>());
      }
    }
  }
  // A check that no plugin passes would go unnoticed if it skipped all of them.
  for (const std::string kind : {"model",
                                 "sparse_optimizer",
                                 "feature",
                                 "hook",
                                 "metric_sink",
                                 "storage",
                                 "dataset",
                                 "loss",
                                 "metric",
                                 "parametrization"}) {
    INFO(kind);
    const auto is_of_kind = [&](const std::string& name) { return name.starts_with(kind + "."); };
    CHECK(std::ranges::any_of(passed, is_of_kind));
  }
}

}  // namespace tenon
