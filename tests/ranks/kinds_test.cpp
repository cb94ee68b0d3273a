// SPDX-License-Identifier: Apache-2.0
//
// The kinds of training of public code bases (tests/support/plugins/kinds.cpp): the losses are
// those of PyTorch, two ranks resume to the bit, and buffers are the same on all ranks.
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/ranks/finished_run.hpp"
#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

using nlohmann::json;

// A recipe of 6 steps of 4 samples, as in tests/parity/kinds_golden.py.
json recipe_of(const std::string& kind, const std::string& patch = "{}") {
  json recipe = json::parse(R"({
    "name": "kinds", "threads": {"compute": 1},
    "data": {"batch_size": 4, "shuffle": false, "train": {"type": "kind_samples"},
             "eval": {"type": "kind_samples"}},
    "loss": {"type": "from_model"},
    "optimizer": {"type": "adamw", "options": {"lr": 0.05, "weight_decay": 0.0}},
    "hooks": [{"type": "keep_parameters"}],
    "train": {"steps": 6, "global_batch_size": 4, "precision": "fp64", "log_every": 1},
    "eval": {"every_steps": 0, "at_end": true, "batches": null},
    "checkpoint": {"at_end": true},
    "parallel": {"timeout_seconds": 30}
  })");
  recipe["model"]["type"] = kind;
  static const std::map<std::string, const char*> of_kind = {
      {"norm_kind", R"({"loss": {"type": "cross_entropy"}})"},
      {"scaled_kind", R"({"loss": {"type": "cross_entropy"}})"},
      {"vae_kind", R"({"model": {"options": {"noise": 0}}})"},
      {"gan_kind", R"({"model": {"options": {"noise": 0}}})"},
      {"sequence_kind", R"({"loss": {"type": "ctc"}})"},
      {"molecule_kind", R"({"loss": {"type": "molecule_loss"}})"},
      {"detector_kind", R"({"metrics": [{"type": "mean_average_precision"}]})"},
  };
  if (const auto found = of_kind.find(kind); found != of_kind.end()) {
    recipe.merge_patch(json::parse(found->second));
  }
  recipe.merge_patch(json::parse(patch));
  return recipe;
}

std::vector<double> losses_of(const FinishedRun& run) {
  std::vector<double> losses;
  for (const json& record : run.metrics) {
    if (record.contains("loss")) {
      losses.push_back(record["loss"].get<double>());
    }
  }
  return losses;
}

// The last value of a metric.
double last_of(const std::vector<json>& records, const std::string& name) {
  double value = std::nan("");
  for (const json& record : records) {
    value = record.contains(name) ? record[name].get<double>() : value;
  }
  return value;
}

// Runs of one recipe on two ranks, in folders of their own.
class RankRuns {
 public:
  explicit RankRuns(const json& recipe) : recipe_(folder_.write("recipe.json", recipe.dump())) {}

  std::string hash_of(const std::string& name,
                      const std::vector<std::string>& more = {},
                      int exit_code = 0) {
    const SubprocessResult result = run_host(recipe_, folder_.path() / name, 2, more);
    INFO(result.out + result.err);
    REQUIRE(result.exit_code == exit_code);
    return json::parse(file_text(folder_.path() / name / "summary.json"))["parameters_hash"];
  }
  std::filesystem::path folder(const std::string& name) const { return folder_.path() / name; }

 private:
  ScratchFolder folder_;
  std::filesystem::path recipe_;
};

}  // namespace

TEST_CASE("each kind of training has the losses of PyTorch", "[ranks]") {
  const json golden = json::parse(file_text(source_dir() / "tests/parity/kinds_golden.json"));
  for (const auto& [kind, want] : golden.items()) {
    INFO(kind);
    const FinishedRun run = finished_run(recipe_of(kind), 1);
    const std::vector<double> losses = losses_of(run);
    REQUIRE(losses.size() == want["loss"].size());
    for (size_t i = 0; i < losses.size(); ++i) {
      CHECK(losses[i] == Approx(want["loss"][i].get<double>()).epsilon(1e-9));
    }
    for (const auto& [name, value] : want.items()) {
      if (value.is_number()) {
        CHECK(last_of(run.metrics, name) == Approx(value.get<double>()).epsilon(1e-9));
      }
    }
  }
}

TEST_CASE("each kind of training resumes on two ranks to the bit",
          "[ranks][multi-rank][.release]") {
  const std::string noise = R"({"model": {"options": {"noise": 1}}})";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"norm_kind", R"({"data": {"train": {"options": {"samples": 8, "augment": 0.5}}}})"},
      {"scaled_kind", "{}"},
      {"vae_kind", noise},
      {"gan_kind", noise},
      {"molecule_kind", "{}"},
      {"carried_kind", R"({"train": {"recompute": "blocks"}})"}};
  for (const auto& [kind, patch] : cases) {
    INFO(kind);
    json recipe = recipe_of(kind, patch);
    recipe["data"]["batch_size"] = 2;
    RankRuns runs(recipe);
    const std::string whole = runs.hash_of("whole");
    static_cast<void>(runs.hash_of("cut", {"--set", "train.exit_at_step=3"}, 75));
    CHECK(runs.hash_of("cut") == whole);
  }
}

TEST_CASE("running statistics in a checkpoint of two ranks are those of rank 0",
          "[ranks][multi-rank]") {
  // Rank 0 has the first two samples of each step. Its statistics are those of a run on them alone
  // with the same parameters: a rate of 0 keeps the parameters.
  json recipe = recipe_of("norm_kind", R"({"optimizer": {"options": {"lr": 1e-300}}})");
  recipe["data"]["batch_size"] = 2;
  RankRuns runs(recipe);
  static_cast<void>(runs.hash_of("two"));
  const double evaluated =
      last_of(metric_records(file_text(runs.folder("two") / "metrics.jsonl")), "eval/loss");
  // One rank evaluates the same parameters and buffers.
  json again = recipe;
  again["load"] = json::array({{{"from", runs.folder("two").string()}}});
  again["eval"] = {{"at_start", true}, {"at_end", false}, {"batches", nullptr}};
  again["train"]["steps"] = 1;
  const FinishedRun one = finished_run(again, 1);
  double at_start = std::nan("");
  for (const json& record : one.metrics) {
    if (record.contains("eval/loss")) {
      at_start = record["eval/loss"].get<double>();
      break;
    }
  }
  CHECK(at_start == Approx(evaluated).epsilon(1e-12));
}

TEST_CASE("summed statistics do not depend on ranks and microbatches",
          "[ranks][multi-rank][.release]") {
  const FinishedRun alone = finished_run(recipe_of("scaled_kind"), 1);
  for (const uint32_t ranks : {1U, 2U}) {
    INFO(ranks);
    const FinishedRun run =
        finished_run(recipe_of("scaled_kind", R"({"data": {"batch_size": 1}})"), ranks);
    CHECK(largest_difference(run.parameters, alone.parameters) <= 1e-10);
    const std::vector<double> losses = losses_of(run);
    const std::vector<double> want = losses_of(alone);
    REQUIRE(losses.size() == want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      CHECK(std::abs(losses[i] - want[i]) <= 1e-10);
    }
    CHECK(std::abs(last_of(run.metrics, "eval/loss") - last_of(alone.metrics, "eval/loss")) <=
          1e-10);
  }
}

TEST_CASE("a recompute of a carried state changes no bit", "[ranks]") {
  const json recipe = recipe_of("carried_kind", R"({"data": {"batch_size": 1}})");
  json recomputed = recipe;
  recomputed["train"]["recompute"] = "blocks";
  CHECK(finished_run(recomputed, 1).parameters_hash == finished_run(recipe, 1).parameters_hash);
}

TEST_CASE("batch normalization trains in narrow precisions", "[ranks][.release]") {
  for (const char* const precision : {"bf16_params", "bf16", "bf16_autocast"}) {
    INFO(precision);
    json recipe = recipe_of("norm_kind");
    recipe["train"]["precision"] = precision;
    const FinishedRun run = finished_run(recipe, 1);
    for (const double loss : losses_of(run)) {
      CHECK(loss > 0.5);
      CHECK(loss < 1.5);
    }
  }
}

TEST_CASE("the checker passes each kind of training", "[ranks][check][.release]") {
  const std::string noise = R"({"model": {"options": {"noise": 1}}})";
  const std::vector<std::tuple<std::string, std::string, std::string>> cases = {
      {"vae_kind", noise, "recipe.two_ranks"},
      {"carried_kind", "{}", "recipe.two_ranks"},
      {"carried_kind", "{}", "model.recompute"},
      {"norm_kind", "{}", "model.fp64"},
      {"policy_kind", "{}", "model.gradients"},
      {"molecule_kind", "{}", "loss"},
      {"sequence_kind", "{}", "loss"},
      {"detector_kind", "{}", "metric"},
      {"detector_kind", "{}", "dataset"},
      {"detector_kind", "{}", "lifecycle.failing_services"}};
  const std::string plugin = (test_plugin_dir() / "kinds.so").string();
  for (const auto& [kind, patch, only] : cases) {
    INFO(kind << ", " << only);
    const ScratchFolder folder;
    json recipe = recipe_of(kind, patch);
    recipe["train"].erase("precision");
    const auto file = folder.write("recipe.json", recipe.dump());
    const SubprocessResult result = run_host({"--check-plugin",
                                              plugin,
                                              "--recipe",
                                              file.string(),
                                              "--only",
                                              only,
                                              "--seed",
                                              "1",
                                              "--json"});
    INFO(result.out + result.err);
    CHECK(result.exit_code == 0);
    bool has_passed = false;
    const json report = json::parse(result.out);
    for (const json& check : report["checks"]) {
      has_passed = has_passed || check["outcome"] == "passed";
    }
    CHECK(has_passed);
  }
}

}  // namespace tenon
