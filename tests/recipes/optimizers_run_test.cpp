// SPDX-License-Identifier: Apache-2.0
//
// Runs with optimizers of language models: resumed to the bit, evaluated and exported at other
// values than they train at, updated in the backward, and recipes that contradict them.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

std::string with_optimizer(const std::string& optimizer, const std::string& patch = "{}") {
  nlohmann::json recipe = nlohmann::json::parse(small_language_recipe());
  recipe["optimizer"] = nlohmann::json::parse(optimizer);
  recipe.merge_patch(nlohmann::json::parse(patch));
  return recipe.dump();
}

constexpr char kMuon[] = R"({"type": "muon", "options": {"lr": 0.02},
    "groups": [{"match": "*norm*", "type": "adamw", "lr": 0.01}]})";
constexpr char kScheduleFree[] = R"({"type": "schedule_free_adamw", "options": {"lr": 0.02}})";

// Runs in folders beside each other.
class OptimizerRuns {
 public:
  nlohmann::json run(const std::string& name,
                     const std::string& recipe,
                     const std::vector<std::string>& more = {},
                     int exit_code = 0) const {
    const SubprocessResult result =
        run_host(folder_.write("recipe.json", recipe), path(name), 1, more);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == exit_code);
    return nlohmann::json::parse(file_text(path(name) / "summary.json"));
  }
  std::string refusal(const std::string& recipe) const {
    const SubprocessResult result =
        run_host(folder_.write("recipe.json", recipe), path("refused"), 1);
    CHECK(result.exit_code == 3);
    CHECK_FALSE(fs::exists(path("refused")));
    return result.err;
  }
  fs::path path(const std::string& name) const { return folder_.path() / name; }
  // The last value of a metric in the records of a run.
  double last(const std::string& name, const std::string& metric) const {
    double value = -1;
    for (const nlohmann::json& record : records_of(path(name))) {
      value = record.value(metric, value);
    }
    return value;
  }

 private:
  ScratchFolder folder_;
};

}  // namespace

TEST_CASE("a resumed run has the bits of a run that never stopped, with each optimizer",
          "[optim][.release]") {
  const OptimizerRuns runs;
  for (const char* const optimizer :
       {kMuon,
        kScheduleFree,
        R"({"type": "adamw8bit", "options": {"lr": 0.02, "block_size": 32}})",
        R"({"type": "lion", "options": {"lr": 0.002}})",
        R"({"type": "adafactor", "options": {"lr": 0.05}})"}) {
    CAPTURE(optimizer);
    const OptimizerRuns own;
    const std::string recipe = with_optimizer(optimizer, R"({"checkpoint": {"at_end": true,
        "on_signal": true}, "train": {"log_every": 1}})");
    const nlohmann::json whole = own.run("whole", recipe);
    own.run("parts", recipe, {"--set", "train.exit_at_step=5"}, 75);
    const nlohmann::json parts = own.run("parts", recipe);
    CHECK(parts["parameters_hash"] == whole["parameters_hash"]);
    CHECK(records_of(own.path("parts")) == records_of(own.path("whole")));
    CHECK(own.last("whole", "loss") < 2.77);  // below that of equal guesses, log(16)
  }
}

TEST_CASE("evaluations at averaged values do not change a bit of training", "[optim]") {
  const OptimizerRuns runs;
  const std::string recipe = with_optimizer(kScheduleFree);
  const std::string evaluated = patched(recipe, R"({
      "data": {"eval": {"type": "token_rows", "options": {"samples": 9, "length": 8}}},
      "eval": {"every_steps": 2, "at_start": true}})");
  const nlohmann::json plain = runs.run("plain", recipe);
  const nlohmann::json often = runs.run("often", evaluated);
  CHECK(plain["parameters_hash"] == often["parameters_hash"]);
}

TEST_CASE("exports hold the values that were evaluated", "[optim]") {
  const OptimizerRuns runs;
  const std::string evaluated = with_optimizer(kScheduleFree, R"({
      "data": {"eval": {"type": "token_rows", "options": {"samples": 9, "length": 8}}},
      "checkpoint": {"at_end": true, "exports": [{"format": "weights", "at_end": true}]}})");
  runs.run("train", evaluated);
  const double want = runs.last("train", "eval/loss");
  const auto only_in = [](const fs::path& folder) {
    fs::path found;
    for (const auto& entry : fs::directory_iterator(folder)) {
      found = fs::exists(entry.path() / "COMMITTED") ? entry.path() : found;
    }
    REQUIRE_FALSE(found.empty());
    return found;
  };
  const auto loss_of = [&](const std::string& name, const fs::path& from) {
    nlohmann::json recipe = nlohmann::json::parse(evaluated);
    recipe["load"] = {{{"from", from.string()}, {"parts", {"parameters"}}}};
    recipe.erase("checkpoint");
    const SubprocessResult result = run_host({"--eval-only",
                                              "--recipe",
                                              [&] {
                                                std::ofstream(runs.path(name + ".json"))
                                                    << recipe.dump();
                                                return runs.path(name + ".json").string();
                                              }(),
                                              "--run-dir",
                                              runs.path(name).string()});
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    return runs.last(name, "eval/loss");
  };
  CHECK(loss_of("exported", only_in(runs.path("train") / "exports" / "weights")) ==
        Approx(want).epsilon(1e-6));
  CHECK(loss_of("training", only_in(runs.path("train") / "checkpoints")) !=
        Approx(want).epsilon(1e-6));
}

TEST_CASE("the best evaluation is kept at the values that were evaluated", "[optim]") {
  const OptimizerRuns runs;
  runs.run("best", with_optimizer(kScheduleFree, R"({
      "data": {"eval": {"type": "token_rows", "options": {"samples": 9, "length": 8}}},
      "eval": {"every_steps": 3, "keep_best": {"metric": "eval/loss", "mode": "max"}}})"));
  std::vector<double> losses;
  for (const nlohmann::json& record : records_of(runs.path("best"))) {
    if (record.contains("eval/loss")) {
      losses.push_back(record["eval/loss"]);
    }
  }
  REQUIRE(losses.size() >= 4);
  // The largest loss is the first one, to which the run returns at its end.
  CHECK(losses.back() == losses.front());
}

TEST_CASE("updates in the backward give the bits of updates after it", "[optim]") {
  const OptimizerRuns runs;
  for (const char* const optimizer : {R"({"type": "adamw", "options": {"lr": 0.01}})",
                                      R"({"type": "adamw8bit", "options": {"lr": 0.01}})",
                                      kMuon}) {
    CAPTURE(optimizer);
    for (const char* const model : {R"({"options": {"tie_word_embeddings": true}})",
                                    R"({"options": {"tie_word_embeddings": false}})"}) {
      CAPTURE(model);
      const OptimizerRuns own;
      std::string recipe = with_optimizer(optimizer, R"({"data": {"batch_size": 4},
          "train": {"global_batch_size": 4, "clip_grad_value": 0.05,
                    "non_finite": {"policy": "stop"}}})");
      recipe = patched(recipe, std::string(R"({"model": )") + model + "}");
      const nlohmann::json after = own.run("after", recipe);
      const nlohmann::json within =
          own.run("within", patched(recipe, R"({"train": {"update_in_backward": true}})"));
      CHECK(within["parameters_hash"] == after["parameters_hash"]);
      CHECK(records_of(own.path("within")) == records_of(own.path("after")));
    }
  }
}

TEST_CASE("recipes that contradict updates in the backward are refused", "[optim]") {
  const OptimizerRuns runs;
  const std::string recipe = with_optimizer(R"({"type": "adamw", "options": {"lr": 0.01}})",
                                            R"({"data": {"batch_size": 4},
      "train": {"update_in_backward": true, "non_finite": {"policy": "stop"}}})");
  const auto refusal = [&](const std::string& patch) {
    return runs.refusal(patched(recipe, patch));
  };
  CHECK_THAT(refusal(R"({"data": {"batch_size": 2}})"),
             Catch::Contains("/train/update_in_backward: a step accumulates the gradients of 2 "
                             "microbatches"));
  CHECK_THAT(refusal(R"({"train": {"clip_grad_norm": 1.0}})"),
             Catch::Contains("/train/update_in_backward: /train/clip_grad_norm needs the norm of "
                             "all gradients before the first update"));
  CHECK_THAT(refusal(R"({"train": {"non_finite": {"policy": "skip"}}})"),
             Catch::Contains("set the policy to \"stop\" or \"ignore\""));
  CHECK_THAT(refusal(R"({"parallel": {"reshard_after_forward": true}})"),
             Catch::Contains("/parallel shards parameters on a single rank"));
}

TEST_CASE("muon on vectors names the parameter and the group to write", "[optim]") {
  const OptimizerRuns runs;
  const std::string refusal =
      runs.refusal(with_optimizer(R"({"type": "muon", "options": {"lr": 0.02}})"));
  CHECK_THAT(refusal, Catch::Contains("[optim.not_a_matrix]"));
  CHECK_THAT(refusal,
             Catch::Contains("optimizer 'muon' updates matrices, but the parameter "
                             "'model.layers.0.input_layernorm.weight' has the shape [16]"));
  CHECK_THAT(refusal,
             Catch::Contains("\"groups\": [{\"match\": \"model.layers.0.input_layernorm.weight\", "
                             "\"type\": \"adamw\"}]"));
}

TEST_CASE("a schedule that falls is refused for an optimizer that replaces it", "[optim]") {
  const OptimizerRuns runs;
  CHECK_THAT(runs.refusal(with_optimizer(kScheduleFree, R"({"lr_scheduler": {"type": "cosine",
                 "options": {"warmup_steps": 3}}})")),
             Catch::Contains("[optim.own_schedule]") &&
                 Catch::Contains("optimizer 'schedule_free_adamw' replaces a schedule, but "
                                 "/lr_scheduler lowers the learning rate") &&
                 Catch::Contains("or use \"constant\" with warmup_steps"));
  runs.run("constant", with_optimizer(kScheduleFree, R"({"lr_scheduler": {"type": "constant",
                 "options": {"warmup_steps": 3}}})"));
}

}  // namespace tenon
