// SPDX-License-Identifier: Apache-2.0
//
// Several ranks say what one rank says: what they read, which figures they tell, and when they end.
// Here the parameters stay as they are, by a rate of 0: how they are trained together is
// another matter.
#include <cmath>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "tests/recipes/ranks_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

std::string still_recipe(const std::string& patch = "{}") {
  nlohmann::json recipe = nlohmann::json::parse(small_recipe(R"({
    "optimizer": {"type": "sgd", "options": {"lr": 0}}, "parallel": {"timeout_seconds": 20}})"));
  recipe.merge_patch(nlohmann::json::parse(patch));
  return recipe.dump(2);
}

// Equal figures in equal records, but for rounding and for what only makes sense where gradients
// are added up.
void check_same_records(const std::vector<nlohmann::json>& found,
                        const std::vector<nlohmann::json>& want) {
  REQUIRE(found.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    INFO("record " << i << ": " << found[i] << " for " << want[i]);
    CHECK(found[i].size() == want[i].size());
    for (const auto& [name, value] : want[i].items()) {
      REQUIRE(found[i].contains(name));
      const double metric = found[i][name];
      CHECK(metric == Approx(value.get<double>()).epsilon(1e-6));
    }
  }
}

// The rank's own last line.
std::string last_log_line(const RanksRun& run, uint32_t rank) {
  std::istringstream lines(
      run.file(rank == 0 ? "log.txt" : "logs/rank-" + std::to_string(rank) + ".txt"));
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    const bool is_suggested =
        line.find("export: ") != std::string::npos || line.find("next: ") != std::string::npos;
    last = is_suggested ? last : line;
  }
  return last;
}

const std::vector<int> kAllDone3(3, 0);

constexpr char kStreams[] =
    R"({"type": "counter_stream", "options": {"shard_sizes": [5, 9, 13], "samples": null}})";

}  // namespace

TEST_CASE("an evaluation gives the same figures on any number of ranks", "[recipes][multi-rank]") {
  const std::string recipe = still_recipe(std::string(R"({
    "metrics": [{"type": "accuracy"}],
    "data": {"eval": {
      "map": {"type": "windows", "options": {"samples": 23}},
      "few": {"type": "windows", "options": {"samples": 1}},
      "parts": {"type": "windows",
                "options": {"windows": [{"label": "u", "size": 5}, {"label": "v", "size": 13}]}},
      "stream": )") + kStreams + "}}}");
  const RanksRun alone(recipe, 1, {"--eval-only"});
  INFO(alone.text());
  REQUIRE(alone.exit_codes() == std::vector<int>{0});
  REQUIRE(alone.metrics().size() == 1);
  CHECK(alone.metrics().front().contains("eval/stream/accuracy"));
  for (const uint32_t num_ranks : {2U, 3U}) {
    const RanksRun run(recipe, num_ranks, {"--eval-only"});
    INFO(run.text());
    REQUIRE(run.exit_codes() == std::vector<int>(num_ranks, 0));
    check_same_records(run.metrics(), alone.metrics());
    CHECK(run.summary()["world_size"] == num_ranks);
    CHECK(run.summary()["mesh"]["shard"] == num_ranks);
  }
}

TEST_CASE("a step sees the same samples on any number of ranks",
          "[recipes][multi-rank][.release]") {
  // 30 samples in steps of 12: the last step of an epoch has 6, and microbatches of one rank or
  // none.
  const std::string patch = R"({
    "metrics": [{"type": "accuracy"}],
    "data": {"batch_size": 2, "train": {"options": {"samples": 30, "tokens_per_sample": 3}}},
    "train": {"steps": null, "tokens": 150, "global_batch_size": 12)";
  for (const std::string more : {"}}", R"(, "loss_chunk": null, "normalize": "items"}})"}) {
    const std::string recipe = still_recipe(patch + more);
    const RanksRun alone(recipe, 1);
    REQUIRE(alone.exit_codes() == std::vector<int>{0});
    for (const uint32_t num_ranks : {2U, 3U}) {
      const RanksRun run(recipe, num_ranks);
      INFO(run.text());
      REQUIRE(run.exit_codes() == std::vector<int>(num_ranks, 0));
      check_same_records(run.metrics(), alone.metrics());
      for (const char* key : {"steps", "epochs", "windows", "samples", "tokens", "reason"}) {
        INFO(key);
        CHECK(run.summary()[key] == alone.summary()[key]);
      }
    }
  }
}

TEST_CASE("ranks without a sample join a step", "[recipes][multi-rank]") {
  const std::string recipe = still_recipe(R"({
    "metrics": [{"type": "accuracy"}],
    "data": {"batch_size": 1, "train": {"options": {"samples": 4}}},
    "train": {"steps": 4, "global_batch_size": 3}})");
  const RanksRun alone(recipe, 1);
  REQUIRE(alone.exit_codes() == std::vector<int>{0});
  const RanksRun run(recipe, 3);
  INFO(run.text());
  REQUIRE(run.exit_codes() == kAllDone3);
  check_same_records(run.metrics(), alone.metrics());
}

TEST_CASE("streams of different lengths lose no samples", "[recipes][multi-rank]") {
  const std::string patch = std::string(R"({
    "metrics": [{"type": "accuracy"}],
    "data": {"batch_size": 2, "train": )") +
                            kStreams +
                            R"(},
    "train": {"steps": null, "epochs": 1, "gradient_accumulation": ACCUMULATION}})";
  const auto recipe_with = [&](const std::string& accumulation) {
    std::string text = patch;
    return still_recipe(text.replace(text.find("ACCUMULATION"), 12, accumulation));
  };
  const RanksRun alone(recipe_with("6"), 1);
  REQUIRE(alone.exit_codes() == std::vector<int>{0});
  const RanksRun run(recipe_with("2"), 3);
  INFO(run.text());
  REQUIRE(run.exit_codes() == kAllDone3);
  CHECK(run.summary()["samples"] == 5 + 9 + 13);
  CHECK(run.summary()["dropped_samples"] == 0);
  CHECK(run.summary()["steps"] == alone.summary()["steps"]);
  check_same_records(run.metrics(), alone.metrics());
}

TEST_CASE("samples that data.last drops are counted over all ranks", "[recipes][multi-rank]") {
  const std::string recipe = still_recipe(std::string(R"({
    "data": {"batch_size": 2, "last": "drop", "train": )") +
                                          kStreams +
                                          R"(},
    "train": {"steps": null, "epochs": 1}})");
  for (const uint32_t num_ranks : {1U, 3U}) {
    const RanksRun run(recipe, num_ranks);
    INFO(run.text());
    CHECK(run.summary()["samples"] == 4 + 8 + 12);
    CHECK(run.summary()["dropped_samples"] == 3);
    CHECK_THAT(run.file("log.txt"), contains_text("dropped 3 samples at the end of the window"));
  }
}

TEST_CASE("each rank has a log of its own, and rank 0 alone the rest", "[recipes][multi-rank]") {
  const RanksRun run(
      still_recipe(R"({"data": {"eval": {"type": "windows"}}})"), 3, {"--set", "checkpoint=null"});
  INFO(run.text());
  REQUIRE(run.exit_codes() == kAllDone3);
  CHECK_THAT(run.result(0).out, contains_text("3 ranks: replicate 1 x shard 3"));
  CHECK_THAT(run.result(0).out, contains_text("done: reached 6 steps"));
  for (const uint32_t rank : {1U, 2U}) {
    CHECK(run.result(rank).out.empty());
    CHECK(run.result(rank).err.empty());
    CHECK_THAT(last_log_line(run, rank),
               contains_text("[rank " + std::to_string(rank) + "] done: reached 6 steps"));
  }
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(run.run_dir())) {
    names.insert(std::filesystem::relative(entry.path(), run.run_dir()).string());
  }
  CHECK(names == std::set<std::string>{"attempt",
                                       "last_step",
                                       "log.txt",
                                       "logs",
                                       "logs/rank-1.txt",
                                       "logs/rank-2.txt",
                                       "metrics.jsonl",
                                       "recipe.json",
                                       "summary.json"});
}

TEST_CASE("a signal to one rank ends all after the same step", "[recipes][multi-rank]") {
  const std::string recipe = still_recipe(R"({"train": {"steps": 100000}, "hooks": [
    {"type": "signal_at",
     "options": {"rank": 2, "signals": [{"event": "before_forward", "step": 5}]}}]})");
  const RanksRun run(recipe, 3);
  INFO(run.text());
  CHECK(run.exit_codes() == std::vector<int>(3, 75));
  CHECK(run.summary()["reason"] == "rank 2: received SIGTERM");
  CHECK(run.summary()["steps"] == 6);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    CHECK_THAT(last_log_line(run, rank),
               contains_text("stopped early: rank 2: received SIGTERM in"));
  }
}

TEST_CASE("a signal to one rank cuts an evaluation on all", "[recipes][multi-rank]") {
  const std::string recipe = still_recipe(R"({
    "data": {"eval": {"type": "windows", "options": {"samples": 4000000}}},
    "hooks": [
      {"type": "signal_at",
       "options": {"rank": 1, "signals": [{"event": "before_loss", "step": 0, "nth": 3}]}}]})");
  const RanksRun run(recipe, 3, {"--eval-only"});
  INFO(run.text());
  CHECK(run.exit_codes() == std::vector<int>(3, 75));
  CHECK(run.summary()["reason"] == "rank 1: received SIGTERM");
  CHECK_FALSE(run.summary()["metrics"].contains("eval/loss"));
}

TEST_CASE("a request of one rank counts for all", "[recipes][multi-rank]") {
  const std::string recipe = still_recipe(R"({
    "data": {"eval": {"type": "windows", "options": {"samples": 5}}},
    "eval": {"at_end": false},
    "train": {"steps": 100000},
    "hooks": [
      {"type": "event_trace"},
      {"type": "request_at", "options": {"rank": 1, "requests": [
        {"event": "before_step", "step": 2, "request": "skip_update"},
        {"event": "before_step", "step": 3, "request": "evaluate"},
        {"event": "before_step", "step": 5, "request": "stop"}]}}]})");
  const RanksRun run(recipe, 2);
  INFO(run.text());
  CHECK(run.exit_codes() == std::vector<int>(2, 0));
  CHECK(run.summary()["reason"] == "rank 1: request_at: before_step of step 5");
  CHECK(run.summary()["steps"] == 5);
  CHECK(run.summary()["updates"] == 4);
  std::vector<uint64_t> evaluated;
  for (const auto& record : run.metrics()) {
    if (record.contains("eval/loss")) {
      evaluated.push_back(record["step"]);
    }
  }
  CHECK(evaluated == std::vector<uint64_t>{3});
}

TEST_CASE("the clock that is ahead ends the run for all ranks", "[recipes][multi-rank]") {
  const RanksRun run(
      still_recipe(R"({"train": {"steps": null, "minutes": 0.005, "log_every": 0}})"), 3);
  INFO(run.text());
  REQUIRE(run.exit_codes() == kAllDone3);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    CHECK_THAT(last_log_line(run, rank), contains_text("done: reached 0.005 minutes"));
  }
}

TEST_CASE("what is not finite on one rank is so on all, and told with the rank",
          "[recipes][multi-rank]") {
  const std::string plant = R"("hooks": [{"type": "plant_at", "options": {
    "rank": 1, "event": "after_data", "first_step": FIRST, "last_step": 14,
    "into": "batch", "name": "x"}}])";
  const auto recipe_from = [&](const std::string& first) {
    return still_recipe("{" + std::regex_replace(plant, std::regex("FIRST"), first) +
                        R"(, "train": {"steps": 20, "clip_grad_norm": 1.0}})");
  };
  const RanksRun run(recipe_from("13"), 3);
  INFO(run.text());
  REQUIRE(run.exit_codes() == kAllDone3);
  CHECK(run.summary()["updates"] == 18);
  CHECK(run.summary()["non_finite"]["steps"] == 2);
  CHECK_THAT(run.summary()["non_finite"]["last_origin"].get<std::string>(),
             contains_text("rank 1: field 'x' of the batch holds 16 non-finite values"));
  CHECK_THAT(run.file("logs/rank-2.txt"),
             contains_text("step 14: the update is non-finite and is skipped (2 consecutive"));

  const RanksRun early(recipe_from("3"), 3);
  INFO(early.text());
  CHECK(early.exit_codes() == std::vector<int>(3, 6));
  CHECK(early.summary()["steps"] == 3);
}

// These ranks have terminals of their own, as those that are started by hand.
TEST_CASE("what rank 0 cannot do ends all ranks, and each of them says why",
          "[recipes][multi-rank]") {
  const ScratchFolder scratch;
  scratch.write("taken/file", "");
  const RanksRun run(still_recipe(), 3, {"--run-dir", (scratch.path() / "taken").string()});
  INFO(run.text());
  CHECK(run.exit_codes() == std::vector<int>(3, run.exit_codes().front()));
  CHECK(run.exit_codes().front() != 0);
  for (const uint32_t rank : {0U, 1U, 2U}) {
    CHECK_THAT(run.result(rank).err, contains_text("[run.dir_exists]"));
  }
}

TEST_CASE("a dataset that one rank has shorter is refused, with both numbers",
          "[recipes][multi-rank]") {
  const RanksRun run(still_recipe(R"({"data": {"train": {"options": {"shorter_on_rank": 2}}}})"),
                     3);
  INFO(run.text());
  CHECK(run.exit_codes() == std::vector<int>(3, 3));
  CHECK_THAT(run.result(0).err, contains_text("[data.differs]"));
  CHECK_THAT(run.result(0).err, contains_text("rank 0 has samples: 24, rank 2 has samples: 23"));
  CHECK_THAT(run.result(1).err, contains_text("[data.differs]"));
  CHECK_FALSE(std::filesystem::exists(run.run_dir()));
}

TEST_CASE("a number of ranks that does not fit is refused with the arithmetic",
          "[recipes][multi-rank]") {
  const RanksRun mesh(still_recipe(R"({"parallel": {"replicate": 2}})"), 3);
  INFO(mesh.text());
  CHECK(mesh.exit_codes() == std::vector<int>(3, 3));
  CHECK_THAT(mesh.result(0).err, contains_text("[distributed.bad_mesh]"));
  CHECK_THAT(mesh.result(0).err, contains_text("3 ranks cannot be divided by 2"));

  const RanksRun batch(still_recipe(R"({"train": {"global_batch_size": 16}})"), 3);
  INFO(batch.text());
  CHECK(batch.exit_codes() == std::vector<int>(3, 3));
  CHECK_THAT(batch.result(0).err,
             contains_text("[recipe.indivisible]") && contains_text("on 3 ranks: 16 = 1 * 12 + 4"));

  const RanksRun shards(still_recipe(R"({"data": {"train": {
    "type": "counter_stream", "options": {"shard_sizes": [8, 8], "samples": null}}}})"),
                        3);
  INFO(shards.text());
  CHECK(shards.exit_codes() == std::vector<int>(3, 3));
  CHECK_THAT(shards.result(0).err,
             contains_text("[data.empty]") && contains_text("it has 2 shards for 3 ranks"));
  for (const RanksRun* run : {&mesh, &batch, &shards}) {
    CHECK_FALSE(std::filesystem::exists(run->run_dir()));
  }
}

TEST_CASE("a check alone knows the number of ranks where the environment has it",
          "[recipes][multi-rank]") {
  const auto said = [](const std::string& patch, uint32_t num_ranks) {
    const RanksRun run(still_recipe(patch), num_ranks, {"--validate"});
    return run.result(num_ranks - 1).out + run.result(num_ranks - 1).err;
  };
  // Nobody knows yet how many there will be.
  CHECK_THAT(said(R"({"parallel": {"shard": 4}})", 1), contains_text("is valid"));
  CHECK_THAT(said(R"({"parallel": {"shard": 3}})", 3), contains_text("is valid"));
  CHECK_THAT(said(R"({"parallel": {"shard": 4}})", 3), contains_text("[distributed.bad_mesh]"));
  const RanksRun launched(
      still_recipe(R"({"parallel": {"shard": 4}})"), 1, {"--validate", "--launch", "8"});
  CHECK_THAT(launched.result(0).err,
             contains_text("replicate 1 x shard 4 = 4, but there are 8 ranks"));
}

TEST_CASE("a hook that writes on rank 0 alone is refused among several ranks",
          "[recipes][multi-rank]") {
  const std::string recipe = still_recipe(R"({"hooks": [{"type": "plant_at", "options": {
    "rank_0_only": true, "event": "after_data", "into": "batch", "name": "x", "value": 1}}]})");
  const RanksRun alone(recipe, 1);
  CHECK(alone.exit_codes() == std::vector<int>{0});
  const RanksRun run(recipe, 2);
  INFO(run.text());
  CHECK(run.exit_codes() == std::vector<int>(2, 3));
  CHECK_THAT(run.result(0).err, contains_text("[hook.one_rank_writes]"));
  CHECK_THAT(run.result(1).err, contains_text("[hook.one_rank_writes]"));
}

TEST_CASE("several losses, by pieces or whole, are weighed as on one rank",
          "[recipes][multi-rank]") {
  // 22 samples: the last step is short, and of unequal parts.
  const std::string recipe = still_recipe(R"({
    "loss": null,
    "losses": [{"name": "a", "type": "cross_entropy", "weight": 0.25},
               {"name": "b", "type": "cross_entropy", "options": {"label_smoothing": 0.1}}],
    "data": {"batch_size": 3, "train": {"options": {"samples": 22}},
             "eval": {"type": "windows", "options": {"samples": 7}}},
    "train": {"global_batch_size": 18}})");
  const RanksRun alone(recipe, 1);
  REQUIRE(alone.exit_codes() == std::vector<int>{0});
  for (const uint32_t num_ranks : {2U, 3U}) {
    const RanksRun run(recipe, num_ranks);
    INFO(run.text());
    REQUIRE(run.exit_codes() == std::vector<int>(num_ranks, 0));
    check_same_records(run.metrics(), alone.metrics());
  }
}

TEST_CASE("the parts of a mix of streams are counted over all ranks", "[recipes][multi-rank]") {
  const std::string recipe = still_recipe(R"({
    "data": {"batch_size": 2, "train": {"type": null, "options": null, "when_one_ends": "stop", "mix": [
      {"name": "u", "weight": 1, "type": "counter_stream", "options": {"shard_sizes": [40, 40]}},
      {"name": "v", "weight": 3, "type": "counter_stream", "options": {"shard_sizes": [60, 60]}}]}},
    "train": {"steps": 5}})");
  const RanksRun run(recipe, 2);
  INFO(run.text());
  REQUIRE(run.exit_codes() == std::vector<int>(2, 0));
  CHECK(run.summary()["metrics"]["data/u/samples"] == 5);
  CHECK(run.summary()["metrics"]["data/v/samples"] == 15);
}

TEST_CASE("losses are divided as on one rank, however they count",
          "[recipes][multi-rank][.release]") {
  // 22 samples in steps of 12 and 10: microbatches of 2, of 1, and ranks without a sample.
  const auto recipe_with = [](const std::string& patch) {
    nlohmann::json recipe = nlohmann::json::parse(small_recipe(R"({
      "optimizer": {"type": "sgd", "options": {"lr": 0.1, "momentum": 0.9}},
      "data": {"batch_size": 2, "train": {"options": {"samples": 22}},
               "eval": {"type": "windows", "options": {"samples": 7}}},
      "train": {"steps": 8, "global_batch_size": 12, "clip_grad_norm": 0.5}})"));
    recipe.merge_patch(nlohmann::json::parse(patch));
    return recipe.dump();
  };
  const std::string each_microbatch =
      R"({"train": {"normalize": "microbatch", "precision": "fp64"}})";
  const std::string by_items = R"({"train": {"precision": "fp64"}})";
  const std::string late = R"({
    "model": {"options": {"out_features": 1}}, "loss": {"type": "plain_loss"},
    "data": {"eval": {"type": "windows", "options": {"samples": 7}}}})";
  for (const std::string& patch : {by_items, late}) {
    INFO(patch);
    const RanksRun alone(recipe_with(patch), 1);
    INFO(alone.text());
    REQUIRE(alone.exit_codes() == std::vector<int>{0});
    CHECK(alone.metrics().front().contains("grad_norm"));
    for (const uint32_t num_ranks : {2U, 3U}) {
      const RanksRun run(recipe_with(patch), num_ranks);
      INFO(run.text());
      REQUIRE(run.exit_codes() == std::vector<int>(num_ranks, 0));
      check_same_records(run.metrics(), alone.metrics());
    }
  }
  // Each microbatch counts the same: ranks and accumulation make the same ones of 12 samples, and
  // 10 are 5 on one rank, and 4 of 2 and 2 of 1 on two.
  nlohmann::json even = nlohmann::json::parse(recipe_with(each_microbatch));
  even["data"]["train"]["options"]["samples"] = 24;
  const RanksRun alone(even.dump(), 1);
  const RanksRun run(even.dump(), 3);
  INFO(run.text());
  REQUIRE(run.exit_codes() == kAllDone3);
  check_same_records(run.metrics(), alone.metrics());
}

TEST_CASE("windows evaluated by themselves give the same figures on any number of ranks",
          "[recipes][multi-rank]") {
  const std::string recipe = still_recipe(R"({"train": {"steps": null, "epochs": 1, "log_every": 0},
    "metrics": [{"type": "accuracy"}],
    "eval": {"next_window": true, "with_window": "after", "at_end": false},
    "data": {"batch_size": 2,
             "train": {"options": {"windows": [{"label": "a", "size": 9}, {"label": "b", "size": 14}]}},
             "eval": {"type": "windows", "options": {"windows": [{"label": "x", "size": 7},
                                                                 {"label": "y", "size": 4}]}}}})");
  const auto metrics = [](const std::vector<nlohmann::json>& records) {
    std::vector<nlohmann::json> kept;
    for (const auto& record : records) {
      if (record.contains("next/loss") || record.contains("eval/loss")) {
        nlohmann::json numbers = record;
        numbers.erase("window");
        kept.push_back(numbers);
      }
    }
    return kept;
  };
  // Ranks have another number of steps in a window, so that steps are left out.
  const auto without_step = [](std::vector<nlohmann::json> records) {
    for (auto& record : records) {
      record.erase("step");
    }
    return records;
  };
  const RanksRun one(recipe, 1);
  const RanksRun three(recipe, 3);
  INFO(three.text());
  REQUIRE(three.exit_codes() == kAllDone3);
  const auto want = without_step(metrics(one.metrics()));
  REQUIRE(want.size() == 4);
  check_same_records(without_step(metrics(three.metrics())), want);
}

TEST_CASE("all ranks wait for a window that one of them does not have yet",
          "[recipes][multi-rank]") {
  const auto recipe_of = [](const std::string& options) {
    return still_recipe(R"({"train": {"steps": null, "epochs": 1}, "data": {"train": {"options": {
      "windows": [{"label": "a", "size": 8}, {"label": "b", "size": 4, "comes_at": 6}])" +
                        options + "}}}}");
  };
  const RanksRun run(recipe_of(R"(, "late_on_rank": 1)"), 2);
  INFO(run.text());
  REQUIRE(run.exit_codes() == std::vector<int>{0, 0});
  CHECK(run.summary()["windows"] == 2);
  CHECK(run.summary()["samples"] == 12);

  const RanksRun ended(recipe_of(R"(, "late_on_rank": 1, "terminate_when_asked": 3)"), 2);
  INFO(ended.text());
  REQUIRE(ended.exit_codes() == std::vector<int>{75, 75});
  CHECK_THAT(last_log_line(ended, 0), contains_text("stopped early: rank 1: received SIGTERM"));
  CHECK(ended.summary()["windows"] == 1);
}

}  // namespace tenon
