// SPDX-License-Identifier: Apache-2.0
//
// Tables whose rows ranks share out: the same figures on 1, 2 and 4 ranks at the same global batch,
// however the steps are made up, and tables that are too large for one rank.
//
// The last global batch of an epoch is not full, so that ranks go without samples.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/ranks/finished_run.hpp"
#include "tests/recipes/ranks_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

nlohmann::json merged(nlohmann::json recipe, const std::string& patch) {
  recipe.merge_patch(nlohmann::json::parse(patch));
  return recipe;
}

nlohmann::json base_recipe() {
  return nlohmann::json::parse(R"({
    "name": "tables", "threads": {"compute": 1},
    "model": {"type": "table_net"},
    "data": {"batch_size": 8,
             "train": {"type": "criteo_like",
                       "options": {"samples": 61, "categorical": 3, "dense": 0, "num_ids": 300}},
             "eval": {"type": "criteo_like",
                      "options": {"samples": 21, "first": 100, "categorical": 3, "dense": 0,
                                  "num_ids": 300}}},
    "loss": {"type": "bce_with_logits", "inputs": {"labels": "label"}},
    "optimizer": {"type": "adamw", "options": {"lr": 3e-3}},
    "tables": {"*": {"optimizer": {"type": "adam", "options": {"lr": 0.05}}},
               "second": {"optimizer": {"type": "rowwise_adagrad", "options": {"lr": 0.05}},
                          "clip_row_norm": 0.02}},
    "hooks": [{"type": "keep_parameters"}],
    "train": {"steps": 40, "global_batch_size": 8, "log_every": 1},
    "eval": {"every_steps": 20},
    "parallel": {"timeout_seconds": 30}
  })");
}

TEST_CASE("rows that ranks share out are those of one rank", "[ranks][multi-rank]") {
  const FinishedRun alone = without_bytes(finished_run(base_recipe(), 1));
  REQUIRE(alone.metrics.size() >= 40);
  CHECK(alone.metrics.back().contains("eval/loss"));
  for (const auto& [num_ranks, patch] : std::vector<std::pair<uint32_t, std::string>>{
           {2, R"({"data": {"batch_size": 4}})"},
           {2, R"({"data": {"batch_size": 2}, "parallel": {"stage": 3},
                   "train": {"recompute": "blocks"}})"},
           {4, R"({"data": {"batch_size": 1}, "parallel": {"shard": 1, "replicate": -1,
                                                           "check_collectives": true}})"},
           {4, R"({"data": {"batch_size": 2}, "parallel": {"share_memory": false}})"}}) {
    INFO(num_ranks << " ranks, " << patch);
    const FinishedRun run = without_bytes(finished_run(merged(base_recipe(), patch), num_ranks));
    CHECK(norm_difference(run.parameters, alone.parameters) <= 1e-5);
    check_metrics(run, alone, 1e-5);
  }
}

TEST_CASE("accumulation updates rows once, on many ranks as on one", "[ranks][multi-rank]") {
  const nlohmann::json recipe = merged(base_recipe(), R"({"train": {"steps": 10}})");
  const FinishedRun alone =
      without_bytes(finished_run(merged(recipe, R"({"data": {"batch_size": 2}})"), 1));
  const FinishedRun run =
      without_bytes(finished_run(merged(recipe, R"({"data": {"batch_size": 1}})"), 2));
  CHECK(norm_difference(run.parameters, alone.parameters) <= 1e-5);
  check_metrics(run, alone, 1e-5);
}

TEST_CASE("a table that is too large for one rank trains on two", "[ranks][multi-rank]") {
  // Nearly each id is another one: 4000 rows of 3 KB.
  const nlohmann::json recipe = merged(base_recipe(), R"({
      "model": {"options": {"dim": 256}}, "hooks": [], "eval": null,
      "train": {"steps": 40, "global_batch_size": 100, "log_every": 40},
      "data": {"batch_size": 50, "eval": null,
               "train": {"options": {"samples": 4000, "num_ids": 1000000000,
                                     "exponents": [0.1, 0.1]}}}})");
  const auto bytes_of = [](const std::vector<nlohmann::json>& metrics) {
    return metrics.back()["tables/first/bytes"].get<int64_t>();
  };
  const RanksRun free_run(recipe.dump(), 1);
  INFO(free_run.text());
  REQUIRE(free_run.exit_codes() == std::vector<int>{0});
  const int64_t needed = bytes_of(free_run.metrics());
  const int64_t budget = needed * 7 / 10;
  const nlohmann::json tight =
      merged(recipe, R"({"tables": {"first": {"bytes": )" + std::to_string(budget) + "}}}");
  const RanksRun one(tight.dump(), 1);
  CHECK(one.exit_codes() == std::vector<int>{5});
  CHECK_THAT(one.text(), Catch::Contains("[table.full]"));
  const RanksRun two(tight.dump(), 2);
  INFO(two.text());
  REQUIRE(two.exit_codes() == std::vector<int>{0, 0});
  CHECK(bytes_of(two.metrics()) > budget);
  CHECK(bytes_of(two.metrics()) <= 2 * budget);
  CHECK(two.metrics().back()["tables/first/rows"] ==
        free_run.metrics().back()["tables/first/rows"]);
  CHECK(two.summary()["sent_bytes"]["all_to_all"].get<int64_t>() > 0);
}

TEST_CASE("rows are evicted at the same steps if the number of ranks changes",
          "[ranks][multi-rank]") {
  const nlohmann::json recipe = merged(base_recipe(), R"({
      "tables": {"*": {"evict": {"unseen_steps": 32}}}, "hooks": [], "eval": null,
      "train": {"steps": 60}, "checkpoint": {"at_end": true},
      "data": {"eval": null, "train": {"options": {"samples": 600, "num_ids": 900}}}})");
  const auto rows_of = [](const RanksRun& run) {
    std::map<int64_t, int64_t> rows;  // by step
    for (const nlohmann::json& record : run.metrics()) {
      rows[record.at("step").get<int64_t>()] = record.at("tables/first/rows").get<int64_t>();
    }
    return rows;
  };
  const RanksRun alone(recipe.dump(), 1);
  INFO(alone.text());
  REQUIRE(alone.exit_codes() == std::vector<int>{0});
  const std::map<int64_t, int64_t> expected = rows_of(alone);
  // Each round of the table has four steps. The run is stopped within a round.
  const RanksRun stopped(recipe.dump(), 1, {"--set", "train.exit_at_step=42"});
  REQUIRE(stopped.exit_codes() == std::vector<int>{75});
  const nlohmann::json of_two = merged(recipe, R"({"data": {"batch_size": 4}})");
  const RanksRun resumed(of_two.dump(), 2, {"--resume", stopped.run_dir().string()});
  INFO(resumed.text());
  REQUIRE(resumed.exit_codes() == std::vector<int>{0, 0});
  std::map<int64_t, int64_t> rows = rows_of(resumed);
  REQUIRE(rows.size() == 18);
  for (const auto& [step, count] : rows) {
    INFO("step " << step);
    CHECK(count == expected.at(step));
  }
  int64_t num_falls = 0;
  for (int64_t step = 43; step < 60; ++step) {
    num_falls += expected.at(step + 1) < expected.at(step) ? 1 : 0;
  }
  CHECK(num_falls > 0);  // rows are evicted
}

}  // namespace
}  // namespace tenon
