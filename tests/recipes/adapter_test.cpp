// SPDX-License-Identifier: Apache-2.0
//
// Runs whose model has adapters: what is trained and saved, resuming, quantized bases, loads of a
// base, and what is said where an adapter cannot be.
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using nlohmann::json;

json adapted(const std::string& patch = "{}") {
  json recipe = json::parse(R"({
      "name": "adapted", "seed": 4, "threads": {"compute": 1},
      "model": {"type": "llama", "frozen": ["*"], "options": {
                  "vocab_size": 64, "hidden_size": 16, "intermediate_size": 24,
                  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                  "max_position_embeddings": 32, "initializer_range": 0.1},
                "parametrizations": [
                  {"match": ["*.q_proj.weight", "*.up_proj.weight"], "type": "lora",
                   "options": {"rank": 4, "alpha": 8}}]},
      "data": {"batch_size": 4,
               "train": {"type": "token_rows", "options": {"samples": 4, "length": 12}},
               "eval": {"type": "token_rows", "options": {"samples": 8, "length": 12}}},
      "loss": {"type": "cross_entropy"},
      "optimizer": {"type": "adamw", "options": {"lr": 0.02}},
      "train": {"steps": 8, "log_every": 1},
      "checkpoint": {"keep_last": 0}})");
  recipe.merge_patch(json::parse(patch));
  return recipe;
}

std::string with_type(const std::string& type, const std::string& options = "{}") {
  return R"({"model": {"parametrizations": [{"match": "*.q_proj.weight", "type": ")" + type +
         R"(", "options": )" + options + "}]}}";
}

// What it printed on standard error.
std::string fail(const json& recipe, int exit_code, const std::vector<std::string>& more = {}) {
  const HostRun run(recipe.dump(), more);
  INFO(run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == exit_code);
  return run.result().err;
}

class Desk {
 public:
  SubprocessResult run(const json& recipe,
                       const std::string& name,
                       int num_ranks = 1,
                       const std::vector<std::string>& more = {}) const {
    const auto file = folder_.write(name + ".json", recipe.dump(2));
    return run_host(file, folder_.path() / name, num_ranks, more);
  }
  std::string succeed(const json& recipe,
                      const std::string& name,
                      int num_ranks = 1,
                      const std::vector<std::string>& more = {}) const {
    const SubprocessResult result = run(recipe, name, num_ranks, more);
    INFO(recipe.dump(2) << "\n" << result.out << result.err);
    REQUIRE(result.exit_code == 0);
    return result.out + result.err;
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  json summary(const std::string& name) const {
    return json::parse(file_text(folder_.path() / name / "summary.json"));
  }
  std::string hash(const std::string& name) const {
    return summary(name)["parameters_hash"].get<std::string>();
  }
  // Records of training steps.
  std::vector<json> records(const std::string& name) const {
    std::vector<json> steps = metric_records(file_text(folder_.path() / name / "metrics.jsonl"));
    std::erase_if(steps, [](const json& record) { return !record.contains("loss"); });
    return steps;
  }

 private:
  ScratchFolder folder_;
};

}  // namespace

TEST_CASE("a run with adapters that is resumed ends as one that was not", "[recipes][.release]") {
  const auto adapter =
      GENERATE(values<std::pair<std::string, std::string>>({{"lora", R"({"dropout": 0.2})"},
                                                            {"rslora", "{}"},
                                                            {"dora", R"({"dropout": 0.1})"},
                                                            {"lora", R"({"base": "bf16"})"},
                                                            {"lora", R"({"base": "int8"})"},
                                                            {"dora", R"({"base": "nf4"})"}}));
  CAPTURE(adapter.first, adapter.second);
  const std::string patch = with_type(adapter.first, adapter.second);
  const Desk desk;
  desk.succeed(adapted(patch), "whole");
  json first = adapted(patch);
  first["train"]["steps"] = 3;
  desk.succeed(first, "cut");
  desk.succeed(adapted(patch), "cut");
  CHECK(desk.hash("cut") == desk.hash("whole"));
  const auto losses = desk.records("whole");
  CHECK(losses.back()["loss"].get<double>() < losses.front()["loss"].get<double>());
}

TEST_CASE("at the start, an adapted model is its base", "[recipes]") {
  const std::string type = GENERATE("lora", "rslora", "dora");
  CAPTURE(type);
  const Desk desk;
  json plain = adapted(R"({"model": {"parametrizations": null, "frozen": null},
                           "train": {"steps": 1}})");
  plain["model"].erase("parametrizations");
  plain["model"].erase("frozen");
  desk.succeed(plain, "plain");
  json one = adapted(with_type(type));
  one["train"]["steps"] = 1;
  desk.succeed(one, "adapted");
  CHECK(desk.records("adapted")[0]["loss"].get<double>() ==
        Approx(desk.records("plain")[0]["loss"].get<double>()).epsilon(1e-6));
}

TEST_CASE("a tied embedding is adapted in both of its blocks, on many ranks too",
          "[recipes][.release]") {
  const std::string type = GENERATE("lora", "dora");
  CAPTURE(type);
  const Desk desk;
  // tie_word_embeddings: the embedding is no linear map, so that its adapter has the other form.
  const json recipe = adapted(R"({"model": {"options": {"tie_word_embeddings": true},
      "parametrizations": [{"match": ["model.embed_tokens.weight", "*.q_proj.weight"],
                            "type": ")" +
                              type + R"("}]}})");
  desk.succeed(recipe, "one");
  const auto losses = desk.records("one");
  CHECK(losses.back()["loss"].get<double>() < losses.front()["loss"].get<double>());
  json sharded = recipe;
  sharded["data"]["batch_size"] = 2;
  sharded["train"]["global_batch_size"] = 4;
  sharded["parallel"] = {{"shard", 2}, {"stage", 3}};
  desk.succeed(sharded, "two", 2);
  const auto on_two = desk.records("two");
  REQUIRE(on_two.size() == losses.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    CHECK(on_two[i]["loss"].get<double>() == Approx(losses[i]["loss"].get<double>()).epsilon(1e-4));
  }
}

TEST_CASE("a base comes from a run without adapters, and adapters from a run with them",
          "[recipes][.release]") {
  const std::string options = GENERATE("{}", R"({"base": "nf4"})");
  const std::string type = GENERATE("lora", "dora");
  const int num_ranks = GENERATE(1, 2);
  CAPTURE(options, type, num_ranks);
  const Desk desk;
  json plain = adapted(R"({"train": {"steps": 3}})");
  plain["model"].erase("parametrizations");
  plain["model"].erase("frozen");
  desk.succeed(plain, "base");
  json tuned = adapted(with_type(type, options));
  tuned["load"] = json::array({{{"from", desk.path("base")}}});
  if (num_ranks > 1) {
    tuned["data"]["batch_size"] = 2;
    tuned["train"]["global_batch_size"] = 4;
    tuned["parallel"] = {{"shard", 2}, {"stage", 3}};
  }
  desk.succeed(tuned, "tuned", num_ranks);
  // The first loss is that of the base on the first batch.
  plain["load"] = tuned["load"];
  plain["train"]["steps"] = 1;
  desk.succeed(plain, "again");
  const double difference = options == "{}" ? 1e-5 : 2e-2;
  CHECK(desk.records("tuned")[0]["loss"].get<double>() ==
        Approx(desk.records("again")[0]["loss"].get<double>()).epsilon(difference));

  // All of it again, without a step that changes it.
  json loaded = tuned;
  loaded["load"] = json::array({{{"from", desk.path("tuned")}}});
  loaded["optimizer"]["options"] = {{"lr", 0.0}, {"weight_decay", 0.0}};
  desk.succeed(loaded, "loaded", num_ranks);
  CHECK(desk.hash("loaded") == desk.hash("tuned"));
}

namespace {

// DPO of an adapter. The reference is the base.
json preferring(const Desk& desk, const json& reference) {
  json recipe = adapted();
  recipe["models"] = {{"main", recipe["model"]}, {"reference", reference}};
  recipe["models"]["reference"]["type"] = "llama";
  recipe["models"]["reference"]["options"] = recipe["model"]["options"];
  recipe["models"]["reference"]["optimizer"] = false;
  recipe.erase("model");
  recipe["load"] = json::array({{{"from", desk.path("base")}}});
  recipe["data"] = {{"batch_size", 4}, {"train", {{"type", "pair_rows"}}}};
  recipe["loss"] = {{"type", "preference"}};
  return recipe;
}

// Elements of all models of a run.
int64_t planned_parameters(const std::string& recipe) {
  const SubprocessResult plan = run_host({"--recipe", recipe, "--plan", "1", "--json"});
  INFO(plan.out << plan.err);
  REQUIRE(plan.exit_code == 0);
  return json::parse(plan.out)["parameters"]["total"].get<int64_t>();
}

void make_base(const Desk& desk) {
  json plain = adapted(R"({"train": {"steps": 3}})");
  plain["model"].erase("parametrizations");
  plain["model"].erase("frozen");
  desk.succeed(plain, "base");
}

}  // namespace

TEST_CASE("the reference of an adapter may be the model without it", "[recipes]") {
  const Desk desk;
  make_base(desk);
  desk.succeed(preferring(desk, {{"load", {{{"from", desk.path("base")}}}}}), "two models");
  const json shared = preferring(desk, {{"parameters_of", "main"}});
  desk.succeed(shared, "one model");
  const auto expected = desk.records("two models");
  const auto losses = desk.records("one model");
  REQUIRE(losses.size() == expected.size());
  CHECK(losses.front()["loss"].get<double>() == Approx(std::log(2.0)).epsilon(1e-6));
  CHECK(losses.back()["loss"].get<double>() < losses.front()["loss"].get<double>());
  for (size_t i = 0; i < losses.size(); ++i) {
    CHECK(losses[i]["loss"] == expected[i]["loss"]);
  }
  CHECK(planned_parameters(desk.path("one model.json")) <
        planned_parameters(desk.path("two models.json")));

  json sharded = shared;
  sharded["data"]["batch_size"] = 2;
  sharded["train"]["global_batch_size"] = 4;
  sharded["parallel"] = {{"shard", 2}, {"stage", 3}};
  desk.succeed(sharded, "sharded", 2);
  const auto on_two = desk.records("sharded");
  REQUIRE(on_two.size() == losses.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    CHECK(on_two[i]["loss"].get<double>() == Approx(losses[i]["loss"].get<double>()).epsilon(1e-4));
  }
}

TEST_CASE("a reference cannot share parameters that are trained or not stored", "[recipes]") {
  const Desk desk;
  make_base(desk);
  json trained = preferring(desk, {{"parameters_of", "main"}});
  trained["models"]["main"]["frozen"] = {"model.layers.*"};
  CHECK_THAT(fail(trained, 3),
             contains_text("model 'reference' cannot share the parameters of 'main': "
                           "'model.embed_tokens.weight' of 'main' is trained"));
  json quantized = preferring(desk, {{"parameters_of", "main"}});
  quantized["models"]["main"]["parametrizations"][0]["options"]["base"] = "nf4";
  CHECK_THAT(fail(quantized, 3), contains_text("not stored, as with a quantized base"));
  CHECK_THAT(
      fail(preferring(desk, {{"parameters_of", "mian"}}), 3),
      contains_text(
          "/models/reference/parameters_of: names 'mian', expected the trained model 'main'"));
  CHECK_THAT(fail(preferring(desk, json::object()), 3), contains_text("/models/reference"));
}

TEST_CASE("patterns of adapters that match nothing are named with the nearest names", "[recipes]") {
  const std::string said = fail(
      adapted(R"({"model": {"parametrizations": [{"match": "*.q_prj.weight", "type": "lora"}]}})"),
      3);
  CHECK_THAT(said, contains_text("parametrization.unmatched"));
  CHECK_THAT(said, contains_text("/model/parametrizations/0"));
  CHECK_THAT(said, contains_text("the pattern '*.q_prj.weight' matches no parameter"));
  CHECK_THAT(said, contains_text("'q_proj.weight'"));
}

TEST_CASE("parameters that an adapter cannot replace are named with the reason", "[recipes]") {
  const std::string said = fail(
      adapted(R"({"model": {"parametrizations": [{"match": "model.norm.*", "type": "lora"}]}})"),
      3);
  CHECK_THAT(said, contains_text("parametrization.unsupported"));
  CHECK_THAT(said, contains_text("cannot replace 'model.norm.weight'"));
  CHECK_THAT(said, contains_text("it has 1 axes, and a low-rank adapter needs a matrix"));
  CHECK_THAT(said, contains_text("let \"match\" leave this parameter out"));
}

TEST_CASE("exports that would lose an adapter are refused", "[recipes]") {
  const Desk desk;
  desk.succeed(adapted(), "run");
  const auto said = [&](const std::vector<std::string>& words) {
    const SubprocessResult result = run_host(words);
    INFO(result.out << result.err);
    CHECK(result.exit_code != 0);
    return result.err;
  };
  const std::string out = desk.path("out");
  CHECK_THAT(said({"--export", "hf", out, "--run-dir", desk.path("run")}),
             contains_text("the run has adapters of 4 parameters, which a Hugging Face folder does "
                           "not hold; pass --merge"));
  CHECK_THAT(said({"--export", "peft", out, "--run-dir", desk.path("run"), "--merge"}),
             contains_text("--merge contradicts --export peft"));
  CHECK_THAT(fail(adapted(R"({"checkpoint": {"exports": [{"format": "hf", "at_end": true}]}})"), 3),
             contains_text("/checkpoint/exports"));
  json plain = adapted();
  plain["model"].erase("parametrizations");
  plain["model"].erase("frozen");
  desk.succeed(plain, "plain");
  CHECK_THAT(said({"--export", "hf", out, "--run-dir", desk.path("plain"), "--merge"}),
             contains_text("--merge has no effect"));
  CHECK_THAT(said({"--export", "peft", out, "--run-dir", desk.path("plain")}),
             contains_text("the recipe has no parametrizations"));
}

TEST_CASE("the plan counts the parameters of adapters", "[recipes]") {
  const Desk desk;
  const auto file = ScratchFolder();
  const auto recipe = file.write("adapted.json", adapted().dump());
  const SubprocessResult result = run_host({"--recipe", recipe.string(), "--plan", "1", "--json"});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(json::parse(result.out).is_object());
}

}  // namespace tenon
