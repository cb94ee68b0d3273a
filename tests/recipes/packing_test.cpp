// SPDX-License-Identifier: Apache-2.0
//
// Runs whose samples are packed into rows: they train as if each sample had a separate row, on
// any number of ranks, and resume inside a group.
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/recipes/ranks_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/read_files.hpp"

namespace tenon {
namespace {

using nlohmann::json;

// 60 samples of 1 to 16 tokens, in rows of 24; the whole epoch is a step.
std::string packed_recipe(const std::string& patch = "{}") {
  return patched(R"({
    "name": "packed",
    "threads": {"compute": 1},
    "model": {"type": "segment_lm"},
    "data": {"batch_size": 64,
             "train": {"type": "token_sequences", "options": {"samples": 60, "ignored": true},
                       "packing": {"length": 24, "group": 32}}},
    "loss": {"type": "cross_entropy"},
    "optimizer": {"type": "sgd", "options": {"lr": 0.5}},
    "train": {"epochs": 6, "precision": "fp64", "log_every": 1}
  })",
                 patch);
}

// Rows in steps of four, of which each microbatch has one.
std::string stepwise_recipe(const std::string& patch = "{}") {
  return patched(packed_recipe(R"({"data": {"batch_size": 1},
    "train": {"epochs": 3, "global_batch_tokens": 96},
    "hooks": [{"type": "data_trace", "options": {"field": "input_ids"}}]})"),
                 patch);
}

std::vector<double> losses_of(const std::vector<json>& records) {
  std::vector<double> losses;
  for (const json& record : records) {
    if (record.contains("loss")) {
      losses.push_back(record["loss"].get<double>());
    }
  }
  return losses;
}

void check_near(const std::vector<double>& found,
                const std::vector<double>& want,
                double tolerance) {
  REQUIRE(found.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i, found[i], want[i]);
    CHECK(std::abs(found[i] - want[i]) <= tolerance * std::abs(want[i]));
  }
}

// The rows that all ranks of a run have read, in the global order.
std::vector<std::string> rows_of(const RanksRun& run, uint32_t num_ranks) {
  std::vector<std::vector<std::string>> of_ranks(num_ranks);
  for (uint32_t rank = 0; rank < num_ranks; ++rank) {
    std::ifstream file(run.run_dir() / ("data-" + std::to_string(rank) + ".jsonl"));
    for (std::string line; std::getline(file, line);) {
      of_ranks[rank].push_back(json::parse(line)["values"].dump());
    }
  }
  std::vector<std::string> rows;
  for (size_t i = 0; i < of_ranks.front().size(); ++i) {
    for (const std::vector<std::string>& lines : of_ranks) {
      if (i < lines.size() && lines[i] != "[]") {
        rows.push_back(lines[i]);
      }
    }
  }
  return rows;
}

// The error of a run that does not start, or fails.
std::string error_of_run(const std::string& recipe) {
  const HostRun run(recipe);
  CHECK(run.result().exit_code != 0);
  return run.result().out + run.result().err;
}

}  // namespace

TEST_CASE("packed samples give the losses and gradients of a row each", "[recipes]") {
  const HostRun packed(packed_recipe());
  INFO(packed.result().out << packed.result().err);
  REQUIRE(packed.result().exit_code == 0);
  const std::vector<double> losses = losses_of(packed.metrics());
  REQUIRE(losses.size() == 6);
  CHECK(losses.back() < losses.front());
  // Padded batches, and a model that knows no segments.
  const HostRun plain(packed_recipe(R"({"model": {"options": {"segments": false}},
    "data": {"train": {"packing": null}}})"));
  INFO(plain.result().out << plain.result().err);
  REQUIRE(plain.result().exit_code == 0);
  check_near(losses, losses_of(plain.metrics()), 1e-10);
  CHECK(packed.summary()["tokens"] == plain.summary()["tokens"]);
  CHECK(packed.summary()["samples"] == plain.summary()["samples"]);
  for (const char* const packing : {R"({"strategy": "greedy"})",
                                    R"({"group": 1})",
                                    R"({"length": 16})",
                                    R"({"length": 60, "group": 7})"}) {
    CAPTURE(packing);
    const HostRun other(
        packed_recipe(R"({"data": {"train": {"packing": )" + std::string(packing) + "}}}"));
    INFO(other.result().out << other.result().err);
    REQUIRE(other.result().exit_code == 0);
    check_near(losses_of(other.metrics()), losses, 1e-10);
  }
}

TEST_CASE("a run reports its rows, by tokens without padding", "[recipes]") {
  const HostRun run(packed_recipe(R"({"train": {"epochs": 2}})"));
  INFO(run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == 0);
  const json summary = run.summary();
  const json packing = summary["packing"];
  CHECK(packing["samples"] == 120);
  CHECK(packing["samples"] == summary["samples"]);
  CHECK(packing["tokens"] == summary["tokens"]);
  CHECK(packing["row_tokens"] == 24);
  CHECK(packing["over_long_samples"] == 0);
  CHECK(packing["lost_tokens"] == 0);
  const double rows = packing["rows"];
  CHECK(packing["fill"].get<double>() ==
        Approx(summary["tokens"].get<double>() / (24 * rows)).epsilon(1e-12));
  CHECK(packing["fill"].get<double>() > 0.9);
  CHECK_THAT(run.file("log.txt"), contains_text("epoch 0: 60 samples in "));
  CHECK_THAT(run.file("log.txt"), contains_text("epoch 1: 60 samples in "));
  CHECK_THAT(run.file("log.txt"), contains_text(" rows of 24 tokens, 9"));
  CHECK_THAT(run.result().out, contains_text("60 samples, packed into rows of 24 tokens"));
  const HostRun plain(small_language_recipe());
  REQUIRE(plain.result().exit_code == 0);
  CHECK_FALSE(plain.summary().contains("packing"));
}

TEST_CASE("any number of ranks trains on the same rows", "[recipes][multi-rank]") {
  const RanksRun alone(stepwise_recipe(), 1);
  INFO(alone.text());
  REQUIRE(alone.exit_codes() == std::vector<int>{0});
  const std::vector<std::string> rows = rows_of(alone, 1);
  CHECK(rows.size() == alone.summary()["packing"]["rows"].get<size_t>());
  for (const uint32_t num_ranks : {2U, 4U}) {
    CAPTURE(num_ranks);
    const RanksRun run(stepwise_recipe(), num_ranks);
    INFO(run.text());
    REQUIRE(run.exit_codes() == std::vector<int>(num_ranks, 0));
    CHECK(rows_of(run, num_ranks) == rows);
    check_near(losses_of(run.metrics()), losses_of(alone.metrics()), 1e-10);
    CHECK(run.summary()["packing"] == alone.summary()["packing"]);
  }
}

TEST_CASE("a packed run that stops inside a group resumes to the bit",
          "[recipes][multi-rank][.release]") {
  const ScratchFolder folder;
  const std::string recipe = folder.write("recipe.json", stepwise_recipe()).string();
  const auto run = [&](const std::string& name, int num_ranks, const std::string& stop) {
    std::vector<std::string> more;
    if (!stop.empty()) {
      more = {"--set", "train.exit_at_step=" + stop};
    }
    const SubprocessResult result = run_host(recipe, folder.path() / name, num_ranks, more);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == (stop.empty() ? 0 : 75));
  };
  const auto summary = [&](const std::string& name) {
    return json::parse(file_text(folder.path() / name / "summary.json"));
  };
  run("whole", 1, "");
  REQUIRE(summary("whole")["steps"].get<int>() > 12);
  run("parts", 1, "1");
  run("parts", 1, "3");
  run("parts", 1, "8");  // in the second epoch
  run("parts", 1, "");
  CHECK(records_of(folder.path() / "parts") == records_of(folder.path() / "whole"));
  CHECK(summary("parts")["parameters_hash"] == summary("whole")["parameters_hash"]);
  CHECK(summary("parts")["packing"] == summary("whole")["packing"]);
  // On other numbers of ranks, the same rows follow.
  run("ranks", 1, "2");
  run("ranks", 2, "5");
  run("ranks", 4, "");
  check_near(losses_of(records_of(folder.path() / "ranks")),
             losses_of(records_of(folder.path() / "whole")),
             1e-10);
  CHECK(summary("ranks")["packing"] == summary("whole")["packing"]);
}

TEST_CASE("evaluation sets are packed, or not, as each says", "[recipes]") {
  const auto eval_loss = [](const std::string& packing) {
    const HostRun run(packed_recipe(R"({"data": {"eval": {"type": "token_sequences",
      "options": {"samples": 21}, "packing": )" +
                                    packing + "}}, \"train\": {\"epochs\": 1}}"));
    INFO(run.result().out << run.result().err);
    REQUIRE(run.result().exit_code == 0);
    return run.summary()["metrics"]["eval/loss"].get<double>();
  };
  const double alone = eval_loss(R"({"length": 16, "group": 1})");
  CHECK(eval_loss(R"({"length": 24})") == Approx(alone).epsilon(1e-10));
  CHECK(eval_loss(R"({"length": 40, "strategy": "greedy"})") == Approx(alone).epsilon(1e-10));
}

TEST_CASE("windows and mixes are packed", "[recipes]") {
  const HostRun windows(packed_recipe(R"({"data": {"train": {"options": {"windows": 3}}},
    "train": {"epochs": 2}})"));
  INFO(windows.result().out << windows.result().err);
  REQUIRE(windows.result().exit_code == 0);
  CHECK(windows.summary()["samples"] == 2 * 3 * 60);
  CHECK(windows.summary()["windows"] == 6);
  const HostRun mix(packed_recipe(R"({"data": {"train": {"type": null, "options": null, "mix": [
      {"name": "a", "weight": 1, "type": "token_sequences", "options": {"samples": 20}},
      {"name": "b", "weight": 3, "type": "token_sequences", "options": {"samples": 60}}],
      "when_one_ends": "continue"}}, "train": {"epochs": 2}})"));
  INFO(mix.result().out << mix.result().err);
  REQUIRE(mix.result().exit_code == 0);
  CHECK(mix.summary()["samples"] == 160);
  CHECK(mix.summary()["metrics"]["data/a/samples"] == 40);
  CHECK(mix.summary()["metrics"]["data/b/epochs"] == 2.0);
}

TEST_CASE("models, losses and metrics can read the lengths of a batch", "[recipes]") {
  for (const char* const patch : {R"({"model": {"options": {"lengths": true}}})",
                                  R"({"model": {"options": {"lengths": true, "segments": false}},
            "data": {"train": {"packing": null}}})",
                                  R"({"model": {"options": {"lengths": true, "segments": false}},
            "data": {"train": {"type": "token_rows", "options": null, "packing": null}}})"}) {
    CAPTURE(patch);
    const HostRun run(packed_recipe(patch));
    INFO(run.result().out << run.result().err);
    CHECK(run.result().exit_code == 0);
  }
}

TEST_CASE("samples longer than a row are treated as asked, and counted", "[recipes]") {
  const auto packing_of = [](const std::string& what) {
    const HostRun run(packed_recipe(R"({"data": {"train": {"packing": {"length": 8,
      "over_long": ")" + what + R"("}}}, "train": {"epochs": 1}})"));
    INFO(run.result().out << run.result().err);
    REQUIRE(run.result().exit_code == 0);
    const json packing = run.summary()["packing"];
    if (packing["over_long_samples"] != 0) {
      CHECK_THAT(run.file("log.txt"), contains_text(" samples were longer than a row and "));
    }
    return packing;
  };
  const json split = packing_of("split");
  const json cut = packing_of("cut");
  const json dropped = packing_of("drop");
  const int over_long = split["over_long_samples"];
  CHECK(over_long > 5);
  CHECK(cut["over_long_samples"] == over_long);
  CHECK(dropped["over_long_samples"] == over_long);
  CHECK(split["lost_tokens"] == 0);
  CHECK(split["samples"] == 60);
  CHECK(dropped["samples"] == 60 - over_long);
  CHECK(cut["tokens"].get<int>() + cut["lost_tokens"].get<int>() == split["tokens"]);
  CHECK(dropped["tokens"].get<int>() + dropped["lost_tokens"].get<int>() == split["tokens"]);
  CHECK_THAT(error_of_run(packed_recipe(R"({"data": {"train": {"packing": {"length": 8}}}})")),
             contains_text("[data.too_long]"));
  CHECK_THAT(error_of_run(packed_recipe(R"({"data": {"train": {"packing": {"length": 1,
      "over_long": "drop"}, "options": {"samples": 1}}}})")),
             contains_text("gave no batch in a whole epoch; packing drops samples of more than 1 "
                           "tokens"));
}

TEST_CASE("what cannot be packed ends a run before its first step", "[recipes]") {
  const auto error_with = [](const std::string& patch) {
    const HostRun run(packed_recipe(patch));
    CHECK(run.result().exit_code == 3);
    return run.result().out + run.result().err;
  };
  CHECK_THAT(error_with(R"({"model": {"options": {"segments": false}}})"),
             contains_text("does not read segment_ids, so the samples of a row would attend to "
                           "each other"));
  CHECK_THAT(error_with(R"({"data": {"train": {"type": "token_rows", "options": null}}})"),
             contains_text("it has no `lengths`, which packing needs"));
  CHECK_THAT(error_with(R"({"data": {"train": {"options": {"per_sample": true}}}})"),
             contains_text("field \"number\" cannot be packed: it does not have one entry per "
                           "token"));
  CHECK_THAT(error_with(R"({"data": {"train": {"packing": {"length": 12}}}})"),
             contains_text("set \"over_long\" of packing"));
}

TEST_CASE("lengths that contradict each other or the samples end a run", "[recipes]") {
  const auto error_with = [](const std::string& fault) {
    return error_of_run(
        packed_recipe(R"({"data": {"train": {"options": {"fault": ")" + fault + R"("}}}})"));
  };
  CHECK_THAT(error_with("zero"), contains_text("sample 3 has the length 0, expected 1 to"));
  CHECK_THAT(error_with("negative"), contains_text("sample 3 has the length -1, expected 1 to"));
  CHECK_THAT(error_with("differs"), contains_text("a read gave sample 3 the length "));
  CHECK_THAT(error_with("wide"), contains_text("the size of axis T"));
  CHECK_THAT(error_with("count"), contains_text("tokens, but set_counts reported"));
  CHECK_THAT(error_with("few"), contains_text("lengths are set, expected"));
}

TEST_CASE("a step of tokens that ranks cannot share is refused", "[recipes][multi-rank]") {
  const RanksRun run(stepwise_recipe(), 3);
  CHECK_THAT(run.text(),
             contains_text("/train/global_batch_tokens: a step of 96 tokens does not divide into "
                           "microbatches of 1 rows of 24 tokens on 3 ranks"));
}

}  // namespace tenon
