// SPDX-License-Identifier: Apache-2.0
//
// Loss of power at any moment of a run. The host runs once, while all that it does to its disk is
// recorded. Each state that the disk may then be in is checked, and the same command resumes from a
// sample of them: power_loss.hpp says which states these are, power_replay.hpp what must hold.
//   TENON_POWER_STATES   the number of states of each scenario to resume from (16); "all"
//   TENON_POWER_SEED     others of them (1)
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "tests/faults/power_replay.hpp"
#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

size_t number_from(const char* variable, size_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr              ? otherwise
         : std::string("all") == text ? std::numeric_limits<size_t>::max()
                                      : std::strtoull(text, nullptr, 10);
}

void require_recorder() {
  std::string reason;
  if (!DiskRecorder::is_possible(reason)) {
    std::cout << "skipped: " << reason << std::endl;
    std::exit(77);  // what CTest takes for a skip
  }
}

std::string text_of_first(const std::vector<std::string>& findings) {
  std::string text = std::to_string(findings.size()) + " findings\n";
  for (size_t i = 0; i < std::min<size_t>(findings.size(), 5); ++i) {
    text += findings[i] + "\n";
  }
  return text;
}

bool has_text(const std::vector<std::string>& findings, const std::string& text) {
  return std::ranges::any_of(
      findings, [&](const std::string& finding) { return finding.find(text) != finding.npos; });
}

// `words`: what the recorded run must have printed, so that the scenario is the one that it is
// called.
void check_scenario(PowerScenario scenario, const std::vector<std::string>& words) {
  require_recorder();
  const std::string name = scenario.name;
  PowerReplay replay(std::move(scenario));
  for (const std::string& word : words) {
    CHECK_THAT(replay.said(), contains_text(word));
  }
  const std::vector<std::string> wrong = replay.check_states();
  INFO(name << ": " << text_of_first(wrong));
  CHECK(wrong.empty());
  const std::vector<std::string> not_resumed =
      replay.resume_states(number_from("TENON_POWER_STATES", 16),
                           static_cast<uint32_t>(number_from("TENON_POWER_SEED", 1)));
  std::cout << name << ": " << replay.log().events.size() << " calls, " << replay.num_states()
            << " states of " << replay.num_shapes() << " shapes, " << replay.num_resumed()
            << " resumed" << std::endl;
  INFO("resumed: " << text_of_first(not_resumed));
  CHECK(not_resumed.empty());
}

std::string saving_recipe(const std::string& patch = "{}") {
  return patched(busy_recipe(R"({"train": {"steps": 6, "log_every": 1}, "eval": {"every_steps": 3},
      "checkpoint": {"every_steps": 2, "keep_last": 1}})"),
                 patch);
}

// The first call whose text begins with this.
std::function<bool(const DiskEvent&)> call_of(const std::string& begin) {
  return [begin](const DiskEvent& event) { return event.call.starts_with(begin); };
}

// Windows of one step each: 8 samples. Those of the fifth have NaN, so that step 5 fails.
std::string rolling_back_recipe() {
  nlohmann::json recipe = nlohmann::json::parse(small_recipe(R"({
    "train": {"steps": 7, "global_batch_size": 8, "non_finite": {"policy": "stop"}},
    "data": {"batch_size": 2, "train": {"options": {"spoilt_first": 32, "spoilt_last": 39}}},
    "checkpoint": {"every_steps": 2, "keep_last": 1, "on_spike": "roll_back"}})"));
  nlohmann::json& options = recipe["data"]["train"]["options"];
  options.erase("samples");
  for (int w = 0; w < 12; ++w) {
    options["windows"].push_back({{"label", "w" + std::to_string(w)}, {"size", 8}});
  }
  return recipe.dump();
}

}  // namespace

TEST_CASE("after a power loss in a start, a save or a retention the run resumes", "[faults]") {
  check_scenario({.name = "start, save, retention", .recipe = saving_recipe()},
                 {"saved run/checkpoints/step-00000006", "done: "});
}

TEST_CASE("after a power loss in a save of tables the run resumes", "[faults][.release]") {
  check_scenario({.name = "tables",
                  .recipe = saving_recipe(kRowsOfTables),
                  .arguments = {"--export-tables", "rows/of"}},
                 {"saved ", " are in rows/of/"});
}

TEST_CASE("after a power loss in an export the run resumes with its exports",
          "[faults][.release]") {
  check_scenario({.name = "export", .recipe = small_language_recipe(R"({"train": {"steps": 6},
                      "checkpoint": {"every_steps": 2, "keep_last": 1, "exports": [
                        {"format": "weights", "every_steps": 2, "keep_last": 1},
                        {"format": "hf", "every_steps": 3, "at_end": true}]}})")},
                 {"exported run/exports/weights/", "exported run/exports/hf/"});
}

TEST_CASE("after a power loss in a rollback the run resumes", "[faults][.release]") {
  check_scenario({.name = "rollback", .recipe = rolling_back_recipe()}, {"roll", "done: "});
}

TEST_CASE("after a kill at the start and a power loss the run resumes", "[faults][.release]") {
  check_scenario(
      {.name = "killed start", .recipe = saving_recipe(), .kill_after = call_of("create run")},
      {"saved ", "done: "});
}

TEST_CASE("after a power loss in a start over no file that was put aside is lost",
          "[faults][.release]") {
  check_scenario({.name = "start over",
                  .recipe = saving_recipe(R"({"checkpoint": {"exports": [
                      {"format": "weights", "every_steps": 1, "keep_last": 0}]}})"),
                  .kill_after = call_of("create run/checkpoints")},
                 {"starting over", "run/attempt-1", "done: "});
}

TEST_CASE("after a power loss in a resume the run resumes", "[faults][.release]") {
  check_scenario({.name = "resume",
                  .recipe = saving_recipe(),
                  .kill_after = call_of("saved run/checkpoints/step-00000004")},
                 {"resumed from ", "done: "});
}

TEST_CASE("after a power loss with two ranks the run resumes", "[faults][ranks][.release]") {
  check_scenario({.name = "two ranks",
                  .recipe = saving_recipe(R"({"parallel": {"timeout_seconds": 30}})"),
                  .arguments = {"--launch", "2"}},
                 {"saved ", "done: "});
}

TEST_CASE("a sync that is missing is found by the power loss replay", "[faults]") {
  require_recorder();
  PowerReplay replay({.name = "planted", .recipe = saving_recipe()});
  const std::vector<std::string> no_folders = replay.check_states(Syncs::kNotOfFolders);
  CHECK(has_text(no_folders, "was printed to be saved, and is lost"));
  const std::vector<std::string> no_files = replay.check_states(Syncs::kNotOfFiles);
  CHECK(has_text(no_files, "is committed, and is not complete"));
}

}  // namespace tenon
