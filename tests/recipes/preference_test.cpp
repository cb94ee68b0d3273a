// SPDX-License-Identifier: Apache-2.0
//
// Runs with a second model that only runs forward: preferences against TRL, distillation by chunks,
// many ranks, resuming, and what is reported if models and losses do not fit together.
#include <nlohmann/json.hpp>

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

namespace fs = std::filesystem;
using nlohmann::json;

fs::path weights(const std::string& folder) {
  return source_dir() / "tests" / "parity" / folder;
}

// A policy of two layers and a reference of one, on the pairs of the test dataset.
json pair_recipe(const std::string& patch = "{}") {
  json recipe = json::parse(R"({
    "name": "pairs", "threads": {"compute": 1},
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
    "data": {"batch_size": 4, "shuffle": false, "train": {"type": "pair_rows"}},
    "loss": {"type": "preference"},
    "optimizer": {"type": "adamw", "options": {"lr": 1e-3, "betas": [0.9, 0.95], "weight_decay": 0}},
    "train": {"steps": 20, "log_every": 1, "clip_grad_norm": 1e9}})");
  recipe["load"] = json::array({{{"from", weights("hf_sharded").string()}}});
  recipe["models"]["reference"]["load"] = json::array({{{"from", weights("hf_tied").string()}}});
  recipe.merge_patch(json::parse(patch));
  return recipe;
}

json without_reference(json recipe) {
  recipe["models"].erase("reference");
  return recipe;
}

// What a run says that cannot start.
std::string refused(const json& recipe) {
  const HostRun run(recipe.dump(2));
  INFO(run.result().out << run.result().err);
  CHECK(run.result().exit_code == 3);
  CHECK_FALSE(fs::exists(run.run_dir()));
  return run.result().err;
}

std::vector<json> succeed(const json& recipe) {
  const HostRun run(recipe.dump(2));
  INFO(run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == 0);
  return run.metrics();
}

}  // namespace

TEST_CASE("20 steps of each preference give the losses and rewards of TRL", "[recipes]") {
  std::ifstream file(source_dir() / "tests" / "parity" / "preference_golden.json");
  const json golden = json::parse(file);
  const std::string name = GENERATE("dpo", "ipo", "orpo", "simpo", "simpo_smooth");
  CAPTURE(name);
  const json& one = golden["cases"][name];
  const bool has_reference = name == "dpo" || name == "ipo";
  json recipe = pair_recipe();
  recipe["loss"]["options"] = one["options"];
  recipe["loss"]["options"]["type"] = name == "simpo_smooth" ? "simpo" : name;
  recipe["data"]["train"]["options"]["one_token_prompts"] = name == "orpo";
  const std::vector<json> metrics = succeed(has_reference ? recipe : without_reference(recipe));
  REQUIRE(metrics.size() == 20);
  std::vector<std::string> names = {
      "rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies"};
  if (has_reference) {
    names.insert(names.end(), {"logps/chosen", "logps/rejected"});
  }
  for (size_t i = 0; i < 20; ++i) {
    CAPTURE(i);
    const auto expected = [&](const std::string& of) { return one["steps"][of][i].get<double>(); };
    CHECK(metrics[i]["loss"].get<double>() == Approx(expected("loss")).epsilon(1e-5));
    CHECK(metrics[i]["grad_norm"].get<double>() == Approx(expected("grad_norm")).epsilon(1e-4));
    for (const std::string& metric : names) {
      CAPTURE(metric);
      CHECK(metrics[i]["preference/" + metric].get<double>() ==
            Approx(expected(metric)).epsilon(1e-5).margin(1e-5));
    }
  }
}

TEST_CASE("two ranks with sharded models prefer as one rank does", "[recipes][multi-rank]") {
  const std::string exact = R"({"train": {"precision": "fp64", "steps": 6, "global_batch_size": 4},
                                "data": {"batch_size": 2}})";
  const std::vector<json> alone = succeed(pair_recipe(exact));
  const ScratchFolder folder;
  const std::string parallel =
      GENERATE(R"({"parallel": {"replicate": 2, "shard": 1}})", R"({"parallel": {"shard": 2}})");
  CAPTURE(parallel);
  json recipe = pair_recipe(exact);
  recipe.merge_patch(json::parse(parallel));
  const fs::path file = folder.write("recipe.json", recipe.dump(2));
  const SubprocessResult result = run_host(file, folder.path() / "run", 2);
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  const std::vector<json> together = records_of(folder.path() / "run");
  REQUIRE(together.size() == alone.size());
  for (size_t i = 0; i < alone.size(); ++i) {
    CAPTURE(i);
    for (const char* const metric :
         {"loss", "preference/rewards/margins", "preference/logps/chosen"}) {
      CHECK(together[i][metric].get<double>() ==
            Approx(alone[i][metric].get<double>()).epsilon(1e-10).margin(1e-12));
    }
  }
}

TEST_CASE("a run with a reference resumes to the bit, and only with the same reference",
          "[recipes]") {
  const ScratchFolder folder;
  const fs::path reference = folder.path() / "reference";
  fs::copy(weights("hf_tied"), reference);
  json recipe = pair_recipe(R"({"train": {"steps": 8}})");
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
  CHECK_THAT(resumed.out + resumed.err, contains_text("model 'reference': loaded 11 parameters"));
  CHECK(records_of(folder.path() / "parts") == records_of(folder.path() / "whole"));

  // No weight of the reference is in a checkpoint; another reference is an error.
  fs::remove_all(reference);
  fs::copy(weights("hf_tied"), reference);
  const fs::path shard = reference / "model-00002-of-00002.safetensors";
  std::fstream bytes(shard, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekp(-4, std::ios::end);
  bytes.write("\0\0\0\x3f", 4);  // 0.5
  bytes.close();
  const SubprocessResult other = run("other");
  INFO(other.out << other.err);
  CHECK(other.exit_code != 0);
  CHECK_THAT(other.err, contains_text("[resume.model_changed]"));
  CHECK_THAT(other.err, contains_text("the model 'reference' (from " + reference.string() + ")"));
}

TEST_CASE("the reference may be log-probabilities of the batch", "[recipes]") {
  const std::vector<json> metrics = succeed(without_reference(pair_recipe(R"({
    "data": {"train": {"options": {"has_logps": true}},
             "eval": {"type": "pair_rows", "options": {"samples": 8, "has_logps": true}}},
    "loss": {"inputs": {"reference/token_logps": "kept_logps"}},
    "train": {"steps": 2}})")));
  CHECK(metrics[0].contains("preference/rewards/chosen"));
  CHECK(metrics.back().contains("eval/preference/rewards/margins"));
}

TEST_CASE("distillation by chunks equals that of whole sequences", "[recipes]") {
  const auto recipe = [](const std::string& chunk, const std::string& type) {
    return pair_recipe(R"({"loss": {"type": "distill", "options": {"type": ")" + type +
                       R"(", "temperature": 2}},
      "train": {"steps": 4, "precision": "fp64", "loss_chunk": )" +
                       chunk + "}}");
  };
  const std::string type = GENERATE("forward_kl", "reverse_kl");
  const std::vector<json> whole = succeed(recipe("null", type));
  const std::vector<json> chunks = succeed(recipe("7", type));
  REQUIRE(whole.size() == 4);
  CHECK(whole[3]["loss"].get<double>() < whole[0]["loss"].get<double>());
  for (size_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(chunks[i]["loss"].get<double>() == Approx(whole[i]["loss"].get<double>()).epsilon(1e-12));
    CHECK(chunks[i]["grad_norm"].get<double>() ==
          Approx(whole[i]["grad_norm"].get<double>()).epsilon(1e-10));
  }
}

TEST_CASE("models and losses that do not fit together are named", "[recipes]") {
  CHECK_THAT(
      refused(without_reference(pair_recipe())),
      contains_text("reads 'reference/token_logps', which is neither an output of the model") &&
          contains_text("or add the model 'reference' to \"models\"") &&
          contains_text("[loss.unknown_input]"));
  CHECK_THAT(refused(pair_recipe(R"({"loss": {"inputs": {
               "reference/token_logps": "reference/token_logp"}}})")),
             contains_text("did you mean \"reference/token_logps\""));
  CHECK_THAT(refused(pair_recipe(R"({"loss": {"options": {"type": "simpo"}}})")),
             contains_text("no loss and no metric reads an output of the model 'reference'") &&
                 contains_text("[model.unread]"));
  CHECK_THAT(
      refused(pair_recipe(R"({"models": {"reference": {"options": {"vocab_size": 60}}}})")),
      contains_text("the models 'main' and 'reference' have vocabularies of 64 and 60 tokens") &&
          contains_text("[model.vocabularies_differ]"));
  CHECK_THAT(refused(pair_recipe(R"({"models": {"reference": {"load": null}}})")),
             contains_text("/models/reference/load: missing key"));
  CHECK_THAT(
      refused(pair_recipe(R"({"models": {"reference": {"optimizer": true, "load": null}}})")),
      contains_text("several models with an optimizer"));
  CHECK_THAT(refused(pair_recipe(R"({"models": {"reference": {"frozen": ["*"]}}})")),
             contains_text("without an optimizer, all parameters are frozen"));
}

TEST_CASE("a pair without its rejected answer ends the run, with its place", "[recipes]") {
  const HostRun run(pair_recipe(R"({"data": {"train": {"options": {"lonely": 2}}}})").dump());
  CHECK(run.result().exit_code != 0);
  CHECK_THAT(run.result().err, contains_text("sample 2 of the batch has 1 answers"));
}

}  // namespace tenon
