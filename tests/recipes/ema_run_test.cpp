// SPDX-License-Identifier: Apache-2.0
//
// Runs with the hook ema: evaluated and exported at averages, trained as without it, resumed to the
// bit, on one rank and on several.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr char kEvaluated[] = R"({
    "data": {"eval": {"type": "token_rows", "options": {"samples": 9, "length": 8}}},
    "eval": {"every_steps": 3},
    "checkpoint": {"at_end": true, "on_signal": true}})";

std::string with_ema(const std::string& options = R"({"decay": 0.8})",
                     const std::string& patch = "{}") {
  nlohmann::json recipe = nlohmann::json::parse(small_language_recipe(kEvaluated));
  recipe["hooks"] = {{{"type", "ema"}, {"options", nlohmann::json::parse(options)}}};
  recipe.merge_patch(nlohmann::json::parse(patch));
  return recipe.dump();
}

// Runs in folders beside each other.
class EmaRuns {
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
    return result.err;
  }
  fs::path path(const std::string& name) const { return folder_.path() / name; }
  std::vector<double> losses(const std::string& name) const {
    std::vector<double> values;
    for (const nlohmann::json& record : records_of(path(name))) {
      if (record.contains("eval/loss")) {
        values.push_back(record["eval/loss"]);
      }
    }
    return values;
  }
  // Evaluates the weights in a folder.
  double loss_of(const std::string& name, const nlohmann::json& load) const {
    nlohmann::json recipe = nlohmann::json::parse(small_language_recipe(kEvaluated));
    recipe["load"] = nlohmann::json::array({load});
    recipe.erase("checkpoint");
    run(name, recipe.dump(), {"--eval-only"});
    return losses(name).back();
  }

 private:
  ScratchFolder folder_;
};

fs::path only_in(const fs::path& folder) {
  fs::path found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    found = fs::exists(entry.path() / "COMMITTED") ? entry.path() : found;
  }
  REQUIRE_FALSE(found.empty());
  return found;
}

}  // namespace

TEST_CASE("averages change evaluations, and not a bit of training", "[ema]") {
  const EmaRuns runs;
  const nlohmann::json plain = runs.run("plain", small_language_recipe(kEvaluated));
  const nlohmann::json averaged = runs.run("averaged", with_ema());
  CHECK(plain["parameters_hash"] == averaged["parameters_hash"]);
  REQUIRE(runs.losses("plain").size() == runs.losses("averaged").size());
  CHECK(runs.losses("plain").back() != runs.losses("averaged").back());
  // A decay of 0, and a start after the end, average nothing.
  runs.run("last", with_ema(R"({"decay": 0})"));
  CHECK(runs.losses("last") == runs.losses("plain"));
  runs.run("late", with_ema(R"({"decay": 0.8, "start": 1000})"));
  CHECK(runs.losses("late") == runs.losses("plain"));
}

TEST_CASE("a resumed run has the averages of a run that never stopped", "[ema]") {
  const EmaRuns runs;
  const nlohmann::json whole = runs.run("whole", with_ema());
  runs.run("parts", with_ema(), {"--set", "train.exit_at_step=5"}, 75);
  const nlohmann::json parts = runs.run("parts", with_ema());
  CHECK(parts["parameters_hash"] == whole["parameters_hash"]);
  CHECK(records_of(runs.path("parts")) == records_of(runs.path("whole")));
  REQUIRE(runs.losses("parts").size() == 4);
}

TEST_CASE("exports during a run and after it hold the averages that were evaluated", "[ema]") {
  const EmaRuns runs;
  runs.run("train", with_ema(R"({"decay": 0.8})", R"({"checkpoint": {
      "exports": [{"format": "weights", "at_end": true}]}})"));
  const double want = runs.losses("train").back();
  const auto from = [](const fs::path& folder) {
    return nlohmann::json{{"from", folder.string()}, {"parts", {"parameters"}}};
  };
  CHECK(runs.loss_of("export", from(only_in(runs.path("train") / "exports" / "weights"))) ==
        Approx(want).epsilon(1e-6));
  CHECK(runs.loss_of("training", from(only_in(runs.path("train") / "checkpoints"))) !=
        Approx(want).epsilon(1e-6));
  const SubprocessResult exported = run_host(
      {"--export", "hf", runs.path("hf").string(), "--run-dir", runs.path("train").string()});
  INFO(exported.out << exported.err);
  REQUIRE(exported.exit_code == 0);
  CHECK(runs.loss_of("hf-run", {{"from", runs.path("hf").string()}}) == Approx(want).epsilon(1e-6));
}

TEST_CASE("sharded averages are those of one rank, also after a change of ranks", "[ema]") {
  const EmaRuns runs;
  const std::string sharded = with_ema(
      R"({"decay": 0.8})", R"({"parallel": {"shard": -1, "reshard_after_forward": true}})");
  runs.run("one", with_ema());
  runs.run("two", sharded, {"--launch", "2"});
  runs.run("changed", sharded, {"--launch", "2", "--set", "train.exit_at_step=5"}, 75);
  runs.run("changed", sharded, {"--launch", "4"});
  const std::vector<double> want = runs.losses("one");
  for (const char* const name : {"two", "changed"}) {
    CAPTURE(name);
    const std::vector<double> got = runs.losses(name);
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      CHECK(got[i] == Approx(want[i]).epsilon(1e-6));
    }
  }
}

TEST_CASE("the best evaluation keeps the averages that were evaluated", "[ema]") {
  const EmaRuns runs;
  runs.run("best", with_ema(R"({"decay": 0.8})", R"({
      "eval": {"keep_best": {"metric": "eval/loss", "mode": "max"}}})"));
  const std::vector<double> losses = runs.losses("best");
  // The largest loss is the first one, to which the run returns at its end.
  REQUIRE(losses.size() >= 4);
  CHECK(losses.back() == losses.front());
}

TEST_CASE("two averages in a recipe are refused", "[ema]") {
  const EmaRuns runs;
  CHECK_THAT(runs.refusal(with_ema("{}", R"({"optimizer": {"type": "schedule_free_adamw",
                 "options": {"lr": 0.02, "betas": [0.9, 0.99]}}})")),
             Catch::Contains("[hook.two_averages]") &&
                 Catch::Contains("averages parameters for evaluation, and so does optimizer "
                                 "\"schedule_free_adamw\"") &&
                 Catch::Contains("remove one of them"));
  CHECK_THAT(runs.refusal(with_ema("{}", R"({"hooks": [{"type": "ema"}, {"type": "ema"}]})")),
             Catch::Contains("[hook.two_averages]"));
}

}  // namespace tenon
