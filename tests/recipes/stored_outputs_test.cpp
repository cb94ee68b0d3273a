// SPDX-License-Identifier: Apache-2.0
//
// A reference whose outputs are computed once and stored, against the same reference in memory.
#include <nlohmann/json.hpp>

#include <cstdlib>
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

// Sets the folder of caches while it lives.
class CacheFolder {
 public:
  CacheFolder() { ::setenv("TENON_CACHE", folder_.path().c_str(), 1); }
  ~CacheFolder() { ::unsetenv("TENON_CACHE"); }
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;

  fs::path outputs() const { return folder_.path() / "outputs"; }
  // The folders of values, without locks.
  std::vector<fs::path> sets() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(outputs())) {
      if (entry.is_directory()) {
        found.push_back(entry.path());
      }
    }
    return found;
  }

 private:
  ScratchFolder folder_;
};

// Two random models on the pairs of the test dataset.
json recipe_of(const std::string& outputs, const std::string& patch = "{}") {
  const fs::path parity = source_dir() / "tests" / "parity";
  json recipe = json::parse(R"({
    "name": "stored", "threads": {"compute": 1},
    "models": {
      "main": {"type": "llama", "options": {
        "vocab_size": 64, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32,
        "rms_norm_eps": 1e-5, "rope_theta": 500.0, "initializer_range": 0.25}},
      "reference": {"type": "llama", "optimizer": false, "options": {
        "vocab_size": 64, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32,
        "rms_norm_eps": 1e-5, "rope_theta": 500.0, "initializer_range": 0.25,
        "tie_word_embeddings": true,
        "rope_scaling": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 8}}}},
    "data": {"batch_size": 4, "shuffle": false, "train": {"type": "pair_rows"},
             "eval": {"type": "pair_rows", "options": {"samples": 12}}},
    "loss": {"type": "preference"},
    "optimizer": {"type": "adamw", "options": {"lr": 1e-3, "weight_decay": 0}},
    "train": {"steps": 24, "log_every": 1}})");
  recipe["load"] = json::array({{{"from", (parity / "hf_sharded").string()}}});
  recipe["models"]["reference"]["load"] = json::array({{{"from", (parity / "hf_tied").string()}}});
  recipe["models"]["reference"]["outputs"] = outputs;
  recipe.merge_patch(json::parse(patch));
  return recipe;
}

std::vector<json> records(const json& recipe) {
  const HostRun run(recipe.dump(2));
  INFO(run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == 0);
  return run.metrics();
}

constexpr const char* kMetrics[] = {
    "loss", "grad_norm", "preference/rewards/margins", "eval/loss", "eval/preference/logps/chosen"};

void check_close(const std::vector<json>& a, const std::vector<json>& b, double epsilon) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    for (const char* const metric : kMetrics) {
      CAPTURE(i, metric);
      REQUIRE(a[i].contains(metric) == b[i].contains(metric));
      if (a[i].contains(metric)) {
        CHECK(a[i][metric].get<double>() ==
              Approx(b[i][metric].get<double>()).epsilon(epsilon).margin(epsilon));
      }
    }
  }
}

// What a run says that cannot start.
std::string refused(const json& recipe) {
  const HostRun run(recipe.dump(2));
  INFO(run.result().out << run.result().err);
  CHECK(run.result().exit_code == 3);
  return run.result().err;
}

}  // namespace

TEST_CASE("stored outputs give the losses of the model in memory, to the bit in equal batches",
          "[recipes]") {
  const CacheFolder cache;
  const std::string type = GENERATE("dpo", "ipo");
  const std::string patch = R"({"loss": {"options": {"type": ")" + type + R"("}}})";
  const std::vector<json> stored = records(recipe_of("stored", patch));
  const std::vector<json> computed = records(recipe_of("computed", patch));
  REQUIRE(stored.size() == computed.size());
  for (size_t i = 0; i < stored.size(); ++i) {
    for (const char* const metric : kMetrics) {
      CAPTURE(i, metric);
      CHECK(stored[i].value(metric, 0.0) == computed[i].value(metric, 0.0));
    }
  }
  CHECK(cache.sets().size() == 2);  // of data.train and data.eval
}

TEST_CASE("stored outputs follow samples in another order and other batches", "[recipes]") {
  const CacheFolder cache;
  const std::string patch = R"({"data": {"shuffle": true, "batch_size": 6}})";
  records(recipe_of("stored"));
  check_close(records(recipe_of("stored", patch)), records(recipe_of("computed", patch)), 1e-6);
  CHECK(cache.sets().size() == 2);  // the same values
}

TEST_CASE("two ranks share the computation of stored outputs", "[recipes][multi-rank]") {
  const CacheFolder cache;
  const std::string patch = R"({
    "train": {"precision": "fp64", "steps": 6, "global_batch_size": 4}, "data": {"batch_size": 2,
    "train": {"options": {"samples": 1300}}}})";
  const std::vector<json> computed = records(recipe_of("computed", patch));
  const ScratchFolder folder;
  json recipe = recipe_of("stored", patch);
  recipe["parallel"] = {{"shard", 2}};
  const fs::path file = folder.write("recipe.json", recipe.dump(2));
  const SubprocessResult result = run_host(file, folder.path() / "run", 2);
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  check_close(records_of(folder.path() / "run"), computed, 1e-10);
  REQUIRE(cache.sets().size() == 2);
  size_t num_files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(cache.outputs())) {
    num_files += entry.path().filename().string().starts_with("values-") ? 1 : 0;
  }
  CHECK(num_files == 3 + 1);
  // One rank reads what two ranks wrote.
  const std::vector<json> alone = records(recipe_of("stored", patch));
  check_close(alone, computed, 1e-10);
  CHECK(cache.sets().size() == 2);
}

TEST_CASE("an interrupted computation continues, and corrupt files are made again", "[recipes]") {
  const CacheFolder cache;
  const std::string patch = R"({"data": {"train": {"options": {"samples": 600}}, "eval": null},
                                "train": {"steps": 3}})";
  const std::vector<json> first = records(recipe_of("stored", patch));
  REQUIRE(cache.sets().size() == 1);
  const fs::path set = cache.sets().front();
  const fs::path building = set.string() + ".incomplete";
  const auto written = fs::last_write_time(set / "values-000000.bin");
  fs::rename(set, building);
  fs::resize_file(building / "values-000001.bin", 100);
  check_close(records(recipe_of("stored", patch)), first, 0);
  CHECK_FALSE(fs::exists(building));
  CHECK(fs::last_write_time(set / "values-000000.bin") == written);
}

TEST_CASE("a corrupt file of stored outputs is an error that names it", "[recipes]") {
  const CacheFolder cache;
  const json recipe = recipe_of("stored", R"({"data": {"eval": null}, "train": {"steps": 1}})");
  records(recipe);
  const fs::path file = cache.sets().front() / "values-000000.bin";
  const auto fails = [&](const std::string& why) {
    const HostRun run(recipe.dump());
    CHECK(run.result().exit_code == 5);
    CHECK_THAT(run.result().err, contains_text("[outputs.corrupt]"));
    CHECK_THAT(run.result().err, contains_text(file.string() + " is invalid: " + why));
  };
  {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(-100, std::ios::end);
    bytes.write("abc", 3);
  }
  fails("its checksum does not match, or it is truncated");
  fs::resize_file(file, 30);
  fails("it is truncated");
  fs::remove(file);
  fails("No such file or directory");
}

TEST_CASE("another reference, other samples and another precision have their own outputs",
          "[recipes]") {
  const CacheFolder cache;
  const auto num_sets = [&](const json& recipe) {
    records(recipe);
    return cache.sets().size();
  };
  const std::string one = R"({"data": {"eval": null}, "train": {"steps": 1}})";
  CHECK(num_sets(recipe_of("stored", one)) == 1);
  json other = recipe_of("stored", one);
  other["loss"]["options"]["beta"] = 0.5;
  CHECK(num_sets(other) == 1);
  other["data"]["train"]["options"]["samples"] = 40;
  CHECK(num_sets(other) == 2);
  other["train"]["precision"] = "fp64";
  CHECK(num_sets(other) == 3);
  const ScratchFolder folder;
  fs::copy(source_dir() / "tests/parity/hf_tied", folder.path() / "reference");
  std::fstream bytes(folder.path() / "reference" / "model-00002-of-00002.safetensors",
                     std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekp(-4, std::ios::end);
  bytes.write("\0\0\0\x3f", 4);  // 0.5
  bytes.close();
  other["models"]["reference"]["load"] =
      json::array({{{"from", (folder.path() / "reference").string()}}});
  CHECK(num_sets(other) == 4);
}

TEST_CASE("a run with stored outputs resumes to the bit, and only with the same reference",
          "[recipes]") {
  const CacheFolder cache;
  const ScratchFolder folder;
  const fs::path reference = folder.path() / "reference";
  fs::copy(source_dir() / "tests/parity/hf_tied", reference);
  json recipe = recipe_of("stored", R"({"train": {"steps": 8}})");
  recipe["models"]["reference"]["load"] = json::array({{{"from", reference.string()}}});
  const fs::path file = folder.write("recipe.json", recipe.dump(2));
  const auto run = [&](const std::string& name, const std::vector<std::string>& more = {}) {
    return run_host(file, folder.path() / name, 1, more);
  };
  REQUIRE(run("whole").exit_code == 0);
  REQUIRE(run("parts", {"--set", "train.exit_at_step=3"}).exit_code == 75);
  fs::copy(folder.path() / "parts", folder.path() / "other", fs::copy_options::recursive);
  const SubprocessResult resumed = run("parts");
  INFO(resumed.out << resumed.err);
  REQUIRE(resumed.exit_code == 0);
  CHECK(records_of(folder.path() / "parts") == records_of(folder.path() / "whole"));
  std::fstream bytes(reference / "model-00002-of-00002.safetensors",
                     std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekp(-4, std::ios::end);
  bytes.write("\0\0\0\x3f", 4);  // 0.5
  bytes.close();
  const SubprocessResult other = run("other");
  CHECK(other.exit_code != 0);
  CHECK_THAT(other.err, contains_text("[resume.model_changed]"));
}

TEST_CASE("a plan leaves a model with stored outputs out", "[recipes]") {
  const auto planned = [](const std::string& outputs) {
    const ScratchFolder folder;
    const fs::path file = folder.write("recipe.json", recipe_of(outputs).dump());
    const SubprocessResult result = run_host({"--recipe", file.string(), "--plan", "1", "--json"});
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    return json::parse(result.out);
  };
  const json computed = planned("computed");
  const json stored = planned("stored");
  const auto total = [](const json& plan) {
    return plan.at("parameters").at("total").get<int64_t>();
  };
  // The policy: an embedding and a head of 64 x 16, a norm, and two layers of two norms, four
  // projections of attention and three of the MLP.
  CHECK(total(stored) == 2 * 64 * 16 + 16 + 2 * (2 * 16 + 2 * 16 * 16 + 2 * 16 * 8 + 3 * 16 * 24));
  CHECK(total(computed) > total(stored));
}

TEST_CASE("outputs that cannot be stored are named", "[recipes]") {
  const CacheFolder cache;
  json recipe = recipe_of("stored");
  recipe["data"]["train"] = {{"mix", {{{"name", "a"}, {"weight", 1}, {"type", "pair_rows"}}}}};
  CHECK_THAT(refused(recipe),
             contains_text("[data.cannot_store]") && contains_text("it is a mixture"));
  recipe = recipe_of("stored");
  recipe["loss"] = {{"type", "preference"}, {"options", {{"type", "simpo"}}}};
  CHECK_THAT(refused(recipe), contains_text("[model.unread]"));
  recipe = recipe_of("stored");
  recipe["models"]["reference"].erase("load");
  recipe["models"]["reference"]["parameters_of"] = "main";
  CHECK_THAT(refused(recipe), contains_text("takes no memory for parameters of its own"));
  recipe = recipe_of("stored");
  recipe["models"]["main"]["outputs"] = "stored";
  CHECK_THAT(refused(recipe),
             contains_text("only outputs of a model with \"optimizer\": false stay the same"));
  recipe = recipe_of("stored");
  recipe["models"]["reference"]["type"] = "mlp";
  recipe["models"]["reference"]["options"] = {
      {"in_features", 4}, {"hidden", {8}}, {"out_features", 3}};
  CHECK_THAT(refused(recipe), contains_text("[model.cannot_store]"));
  recipe = recipe_of("stored");
  recipe["models"]["reference"]["options"]["vocab_size"] = 60;
  CHECK_THAT(refused(recipe), contains_text("[model.vocabularies_differ]"));
}

TEST_CASE("outputs that do not fit on the disk are an error, and leave no part of a file",
          "[recipes]") {
  const CacheFolder cache;
  const json recipe = recipe_of("stored", R"({"data": {"train": {"options": {"samples": 512}}}})");
  SubprocessOptions options;
  options.file_size_limit = 30000;  // of 512 x 20 x 4 bytes
  const HostRun run(recipe.dump(), {}, options);
  INFO(run.result().out << run.result().err);
  CHECK(run.result().exit_code == 5);
  CHECK_THAT(run.result().err, contains_text("[storage.io]"));
  CHECK_THAT(run.result().err, contains_text(cache.outputs().string()));
  REQUIRE(cache.sets().size() == 1);
  CHECK(cache.sets().front().extension() == ".incomplete");
  CHECK(fs::is_empty(cache.sets().front()));
  records(recipe_of("stored", R"({"data": {"train": {"options": {"samples": 512}}}})"));
}

TEST_CASE("a folder for outputs that cannot be written is an error", "[recipes]") {
  const ScratchFolder folder;
  const fs::path file = folder.write("a file", "");
  ::setenv("TENON_CACHE", file.c_str(), 1);
  const HostRun run(recipe_of("stored").dump());
  ::unsetenv("TENON_CACHE");
  CHECK(run.result().exit_code == 5);
  CHECK_THAT(run.result().err, contains_text("[storage.io]"));
}

}  // namespace tenon
