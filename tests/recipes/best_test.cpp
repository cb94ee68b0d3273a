// SPDX-License-Identifier: Apache-2.0
//
// The parameters of the best evaluation, and test sets, which are looked at once at the end.
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/recipes/ranks_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

std::string recipe_of(const std::string& mode, const std::string& patch = "{}") {
  nlohmann::json recipe = nlohmann::json::parse(small_recipe(R"({
    "train": {"steps": 6}, "eval": {"every_steps": 2, "keep_best": {"metric": "eval/loss", "mode": ")" +
                                                             mode + R"("}},
    "data": {"eval": {"type": "windows", "options": {"samples": 24}},
             "test": {"type": "windows", "options": {"samples": 7}}}})"));
  recipe.merge_patch(nlohmann::json::parse(patch));
  return recipe.dump();
}

// The step of the evaluation with the largest or the smallest loss, the first of equals; that at
// the end, of what was kept, comes last.
uint64_t best_step(const std::vector<nlohmann::json>& records, const std::string& mode) {
  uint64_t step = 0;
  double best = 0;
  for (const auto& record : records) {
    if (record.contains("eval/loss")) {
      const double loss = record["eval/loss"];
      if (step == 0 || (mode == "max" ? loss > best : loss < best)) {
        best = loss;
        step = record["step"];
      }
    }
  }
  return step;
}

std::string with_steps(const std::string& recipe, uint64_t steps) {
  nlohmann::json result = nlohmann::json::parse(recipe);
  result["train"]["steps"] = steps;
  return result.dump();
}

}  // namespace

TEST_CASE("a run ends with the parameters of its best evaluation, to the bit", "[recipes]") {
  for (const char* const model : {"{}",
                                  R"({"model": {"type": "batch_norm_net", "options": null},
            "loss": {"inputs": {"logits": "main.y"}}})"}) {
    INFO(model);
    const HostRun run(recipe_of("max", model));
    INFO(run.result().err);
    REQUIRE(run.result().exit_code == 0);
    const uint64_t best = best_step(run.metrics(), "max");
    REQUIRE(best < 6);
    const HostRun two(with_steps(recipe_of("max", model), best));
    const auto summary = run.summary();
    CHECK(summary["parameters_hash"] == two.summary()["parameters_hash"]);
    CHECK(summary["steps"] == 6);
    CHECK(summary["best"]["step"] == best);
    CHECK(summary["best"]["metric"] == "eval/loss");
    CHECK(summary["best"]["value"] == two.summary()["metrics"]["eval/loss"]);
    CHECK(summary["best"]["kept_bytes"].get<int64_t>() > 0);
    // The evaluation at the end, and the test set, are of what is kept.
    CHECK(summary["metrics"]["eval/loss"] == two.summary()["metrics"]["eval/loss"]);
    CHECK(summary["metrics"]["test/loss"] == two.summary()["metrics"]["test/loss"]);
    CHECK_THAT(run.file("log.txt"),
               contains_text("best: step " + std::to_string(best) + ", eval/loss "));
  }
}

TEST_CASE("where the last evaluation is the best, nothing is brought back", "[recipes]") {
  const HostRun longer(recipe_of("max"));
  const std::string recipe = with_steps(recipe_of("max"), best_step(longer.metrics(), "max"));
  const HostRun run(recipe);
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 0);
  nlohmann::json without = nlohmann::json::parse(recipe);
  without["eval"]["keep_best"] = nullptr;
  const HostRun plain(without.dump());
  CHECK(run.summary()["parameters_hash"] == plain.summary()["parameters_hash"]);
  CHECK(run.summary()["best"]["step"] == run.summary()["steps"]);
  CHECK(plain.summary()["best"].is_null());
}

TEST_CASE("the best parameters are those of a run that stops early", "[recipes]") {
  const HostRun run(recipe_of("max", R"({"train": {"steps": 100}, "hooks": [{"type": "early_stop",
    "options": {"metric": "eval/loss", "mode": "max", "patience": 2}}]})"));
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 0);
  CHECK_THAT(run.last_line(), contains_text("done: early_stop"));
  const uint64_t best = best_step(run.metrics(), "max");
  CHECK(run.summary()["best"]["step"] == best);
  CHECK(run.summary()["steps"] == best + 4);
  const HostRun until(with_steps(recipe_of("max"), best));
  CHECK(run.summary()["parameters_hash"] == until.summary()["parameters_hash"]);
  // Whoever is asked to stop before the end goes on some day: the parameters stay the last ones.
  const HostRun cut(recipe_of("max", R"({"train": {"exit_at_step": 5}})"));
  CHECK(cut.result().exit_code == 75);
  CHECK(cut.summary()["best"]["step"].get<int>() <= 4);
  CHECK_FALSE(cut.summary()["metrics"].contains("test/loss"));
}

TEST_CASE("each rank keeps its share of the best parameters", "[recipes][multi-rank][.release]") {
  for (const char* const parallel :
       {R"({"parallel": {"shard": 2}})", R"({"parallel": {"replicate": 2, "shard": 1}})"}) {
    INFO(parallel);
    const RanksRun run(recipe_of("max", parallel), 2);
    INFO(run.text());
    REQUIRE(run.exit_codes() == std::vector<int>{0, 0});
    const uint64_t best = best_step(run.metrics(), "max");
    const RanksRun two(with_steps(recipe_of("max", parallel), best), 2);
    CHECK(run.summary()["parameters_hash"] == two.summary()["parameters_hash"]);
    CHECK(run.summary()["metrics"]["test/loss"] == two.summary()["metrics"]["test/loss"]);
    CHECK(run.summary()["best"]["step"] == best);
  }
}

TEST_CASE("test sets are evaluated on once and whole, by name", "[recipes]") {
  const HostRun run(small_recipe(R"({"train": {"steps": 4}, "metrics": [{"type": "accuracy"}],
    "eval": {"every_steps": 1, "batches": 1}, "hooks": [{"type": "event_trace"}],
    "data": {"eval": {"type": "windows", "options": {"samples": 9}},
             "test": {"near": {"type": "windows", "options": {"samples": 9}},
                      "far": {"type": "windows", "options": {"samples": 5}}}}})"));
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 0);
  int num_tests = 0;
  for (const auto& record : run.metrics()) {
    if (record.contains("test/near/loss")) {
      ++num_tests;
      CHECK(record["step"] == 4);
      CHECK(record.contains("test/far/accuracy"));
    }
  }
  CHECK(num_tests == 1);
  const auto metrics = run.summary()["metrics"];
  CHECK(metrics.contains("test/near/loss"));
  CHECK(metrics["test/near/loss"] != metrics["eval/loss"]);  // of which one batch was read
  CHECK_THAT(run.last_line(), contains_text("; test/near/loss "));
}

TEST_CASE("the best evaluation needs a metric that evaluations give", "[recipes]") {
  const HostRun run(recipe_of("max", R"({"eval": {"keep_best": {"metric": "eval/lss"}}})"));
  CHECK(run.result().exit_code == 3);
  CHECK_THAT(run.result().err,
             contains_text("[metric.unknown] /eval/keep_best/metric: ") &&
                 contains_text("did you mean \"eval/loss\"?"));
}

TEST_CASE("evaluations of single windows have a best, too", "[recipes]") {
  const std::string windows = R"({"type": "windows", "options": {"samples": null, "windows": [
    {"label": "a", "size": 8}, {"label": "b", "size": 8}, {"label": "c", "size": 8}]}})";
  for (const auto& [eval, metric] : {std::pair{R"("with_window": "after")", "eval/loss"},
                                     {R"("next_window": true)", "next/loss"}}) {
    INFO(eval);
    // Next windows need no evaluation set.
    const std::string set = metric == std::string("next/loss") ? "null" : windows;
    const HostRun run(
        small_recipe(R"({"train": {"steps": null, "epochs": 1}, "data": {"train": )" + windows +
                     R"(, "eval": )" + set + R"(}, "eval": {"at_end": false, )" + eval +
                     R"(, "keep_best": {"metric": ")" + metric + R"(", "mode": "max"}}})"));
    INFO(run.result().err);
    REQUIRE(run.result().exit_code == 0);
    double best = 0;
    uint64_t step = 0;
    for (const auto& record : run.metrics()) {
      if (record.contains(metric) && record[metric].get<double>() > best) {
        best = record[metric];
        step = record["step"];
      }
    }
    CHECK(run.summary()["best"]["value"] == best);
    CHECK(run.summary()["best"]["step"] == step);
  }
}

}  // namespace tenon
