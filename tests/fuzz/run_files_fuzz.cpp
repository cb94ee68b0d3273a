// SPDX-License-Identifier: Apache-2.0
//
// Small files of a run folder that are nearly right are read or refused, and putting an attempt
// aside loses nothing. A case is a line that names one of these files, and its content.
#include "host/train/resume/attempt_folder.hpp"
#include "host/train/resume/last_checkpoint.hpp"
#include "host/train/resume/last_step.hpp"
#include "host/train/resume/unsaved_run.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "tests/fuzz/json_cases.hpp"
#include "tests/fuzz/judge_error.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

const std::map<std::string, std::string>& seed_files() {
  static const std::map<std::string, std::string> files = {
      {"last_step", "1234                \n"},
      {"last_checkpoint", "runs/a/checkpoints/step-00000012_epoch-0\n"},
      {"recipe.json",
       R"({"name": "a", "checkpoint": {"every_steps": 2},
           "sinks": [{"type": "jsonl", "options": {"path": "metrics.jsonl"}}],
           "hooks": {"trace": {"type": "event_trace", "options": {"path": "traces/a.jsonl"}}}})"},
      {"summary.json", R"({"outcome": "failed", "steps": 12, "seconds": 1.5})"}};
  return files;
}

std::string make_file(Mutator& mutator) {
  static const JsonCases recipes({seed_files().at("recipe.json")});
  static const JsonCases summaries({seed_files().at("summary.json")});
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, content] : seed_files()) {
      all.push_back(name);
    }
    return all;
  }();
  static const std::vector<std::string> words = {
      "../", "/", ".", "..", "checkpoints", "exports", "/etc/passwd", "\n", "18446744073709551616"};
  const std::string& name = mutator.pick(names);
  if (name == "recipe.json" && mutator.one_in(3)) {  // another path of a sink
    auto recipe = nlohmann::json::parse(seed_files().at(name));
    std::string path = mutator.pick(words);
    for (std::size_t count = mutator.below(4); count > 0; --count) {
      path += mutator.one_in(2) ? "/" + mutator.pick(words) : mutator.pick(words);
    }
    recipe["sinks"][0]["options"]["path"] = path;
    return name + "\n" + recipe.dump();
  }
  return name + "\n" +
         (name == "recipe.json"    ? recipes.make(mutator)
          : name == "summary.json" ? summaries.make(mutator)
                                   : mutator.mutated(seed_files().at(name), words, words));
}

void put(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
}

// A run folder with files that must stay, beside a file that is not of the run.
class SmallRun {
 public:
  SmallRun() {
    fs::remove_all(folder());
    fs::create_directories(folder() / "checkpoints" / "step-1");
    fs::create_directories(folder() / "exports");
    for (const fs::path& file : kept()) {
      put(file, "kept");
    }
    for (const auto& [name, content] : seed_files()) {
      put(folder() / name, content);
    }
    put(folder() / "metrics.jsonl", "{}\n");
  }

  static fs::path folder() {
    static const ScratchFolder scratch;
    return scratch.path() / "outer" / "run";
  }

  void check_kept() const {
    for (const fs::path& file : kept()) {
      if (!fs::exists(file)) {
        throw FuzzFinding(file.string() + " is gone");
      }
    }
  }

  static std::size_t num_files() {
    const fs::recursive_directory_iterator all(folder().parent_path());
    return static_cast<std::size_t>(
        std::count_if(begin(all), end(all), [](const fs::directory_entry& one) {
          return one.is_regular_file();
        }));
  }

 private:
  static std::vector<fs::path> kept() {
    return {folder() / "checkpoints" / "step-1" / "index.json",
            folder() / "exports" / "model",
            folder() / "notes.md",
            folder().parent_path() / "other"};
  }
};

std::string judge_file(const std::string& input) {
  const std::size_t end = std::min(input.find('\n'), input.size());
  const std::string name = input.substr(0, end);
  if (seed_files().count(name) == 0) {
    return "no such file";
  }
  static std::optional<SmallRun> run;
  if (!run.has_value() || name == "recipe.json") {
    run.emplace();
  }
  for (const auto& [other, content] : seed_files()) {
    put(SmallRun::folder() / other, content);
  }
  put(SmallRun::folder() / name, end < input.size() ? input.substr(end + 1) : "");
  const std::string path = SmallRun::folder().string();
  bool is_unsaved = false;
  const std::string outcome = outcome_of([&] {
    (void)last_step_of(path + "/checkpoints/step-1");
    (void)missing_training_text(path, "it", CheckpointMetadata(), CheckpointUse::kResume);
    if (!last_checkpoint_of(path).has_value()) {
      throw FuzzFinding("a recorded checkpoint is not found");
    }
    (void)is_run_of(path, "a");
    is_unsaved = is_unsaved_run(path, "a");
    if (name != "recipe.json") {  // the others decide nothing of it
      return;
    }
    const std::size_t before = SmallRun::num_files();
    const std::string aside = put_attempt_aside(path);
    // One more: recipe.json is copied.
    if (SmallRun::num_files() != before + (aside.empty() ? 0 : 1)) {
      throw FuzzFinding("putting the attempt aside lost or made a file");
    }
  });
  run->check_kept();
  if (name == "recipe.json") {  // its files are put aside
    run.reset();
  }
  return outcome == kFuzzAccepted && !is_unsaved ? "another run" : outcome;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  tenon::use_memory_for_scratch();
  return tenon::run_fuzz(
      argc, argv, {.name = "run_files_fuzz", .make = tenon::make_file, .judge = tenon::judge_file});
}
