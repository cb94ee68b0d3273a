// SPDX-License-Identifier: Apache-2.0
//
// --inspect, --verify and --diff of the checkpoints of a small run.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

const HostRun& saved_run() {
  static const HostRun run(
      small_recipe(R"({"train": {"steps": 4}, "checkpoint": {"every_steps": 2}})"));
  return run;
}

// Its checkpoints, from the first to the last.
std::vector<std::string> checkpoints() {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(saved_run().run_dir() / "checkpoints")) {
    if (entry.is_directory()) {
      found.push_back(entry.path().string());
    }
  }
  std::ranges::sort(found);
  return found;
}

SubprocessResult ask(const std::vector<std::string>& words) {
  std::vector<std::string> all = {host_program().string()};
  all.insert(all.end(), words.begin(), words.end());
  return run_subprocess(all);
}

}  // namespace

TEST_CASE("what is in a checkpoint is printed, as text and as its index", "[recipes]") {
  INFO(saved_run().result().err);
  REQUIRE(saved_run().result().exit_code == 0);
  REQUIRE(checkpoints().size() == 2);
  const SubprocessResult text = ask({"--inspect", saved_run().run_dir().string()});
  INFO(text.err);
  CHECK(text.exit_code == 0);
  CHECK_THAT(text.out, contains_text(checkpoints().back() + "\n"));
  CHECK_THAT(text.out, contains_text("step              4\n"));
  CHECK_THAT(text.out, contains_text("ranks             1\n"));
  CHECK_THAT(text.out, contains_text("parameters/values/"));
  CHECK_THAT(text.out, contains_text("rank-0-of-1.safetensors"));
  const SubprocessResult index = ask({"--inspect", checkpoints().front(), "--json"});
  CHECK(index.exit_code == 0);
  CHECK(nlohmann::json::parse(index.out) ==
        nlohmann::json::parse(file_text(checkpoints().front() + "/index.json")));
  const SubprocessResult none = ask({"--inspect", saved_run().folder().string()});
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.err, contains_text("[storage.not_found]"));
}

TEST_CASE("a checkpoint is verified, and one of which a bit has changed is named", "[recipes]") {
  const SubprocessResult sound = ask({"--verify", checkpoints().front()});
  INFO(sound.err);
  CHECK(sound.exit_code == 0);
  CHECK_THAT(sound.out, contains_text(checkpoints().front() + " is sound: "));
  const ScratchFolder scratch;
  const fs::path copy = scratch.path() / "copy";
  fs::copy(checkpoints().front(), copy, fs::copy_options::recursive);
  {
    std::fstream file(copy / "rank-0-of-1.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const char last = static_cast<char>(file.get() ^ 1);
    file.seekp(-1, std::ios::end);
    file.put(last);
  }
  const SubprocessResult damaged = ask({"--verify", copy.string()});
  CHECK(damaged.exit_code == 5);
  CHECK_THAT(damaged.err, contains_text("[checkpoint.damaged]"));
  CHECK_THAT(damaged.err, contains_text("rank-0-of-1.safetensors is corrupt: entry '"));
}

TEST_CASE("two checkpoints are compared entry by entry", "[recipes]") {
  const SubprocessResult same = ask({"--diff", checkpoints().front(), checkpoints().front()});
  INFO(same.err);
  CHECK(same.exit_code == 0);
  CHECK_THAT(same.out, contains_text(" equal, 0 differ\n"));
  const SubprocessResult other = ask({"--diff", checkpoints().front(), checkpoints().back()});
  CHECK(other.exit_code == 1);
  CHECK_THAT(other.out, contains_text("metadata\n"));
  CHECK_THAT(other.out, contains_text("  step: 2 -> 4\n"));
  CHECK_THAT(other.out, contains_text("  run/step: 2 and 4\n"));
  CHECK_THAT(other.out, contains_text("elements differ, by at most "));
  CHECK_THAT(other.out, !contains_text("recipe, as if"));
  const HostRun longer(
      small_recipe(R"({"train": {"steps": 5}, "seed": 9, "checkpoint": {"every_steps": 2}})"));
  const SubprocessResult runs =
      ask({"--diff", saved_run().run_dir().string(), longer.run_dir().string()});
  CHECK(runs.exit_code == 1);
  CHECK_THAT(runs.out, contains_text("recipe, as if the second resumed from the first\n"));
  CHECK_THAT(runs.out, contains_text("  refused  /seed: "));
  CHECK_THAT(runs.out, contains_text("/train/steps: 4 -> 5; "));
}

TEST_CASE("equal runs do not differ, also if one was stopped and resumed",
          "[recipes][multi-rank][.release]") {
  const std::string recipe = busy_recipe(
      R"({"train": {"steps": 7, "log_every": 2}, "checkpoint": {"every_steps": 5, "at_end": true}})");
  for (const int num_ranks : {1, 2}) {
    INFO(num_ranks);
    const ScratchFolder folder;
    const fs::path file = folder.write("recipe.json", recipe);
    const fs::path whole = folder.path() / "whole";
    const fs::path equal = folder.path() / "equal";
    const fs::path stopped = folder.path() / "stopped";
    REQUIRE(run_host(file, whole, num_ranks).exit_code == 0);
    REQUIRE(run_host(file, equal, num_ranks).exit_code == 0);
    REQUIRE(run_host(file, stopped, num_ranks, {"--set", "train.exit_at_step=3"}).exit_code == 75);
    REQUIRE(run_host(file, stopped, num_ranks).exit_code == 0);
    for (const fs::path& other : {equal, stopped}) {
      const SubprocessResult same = ask({"--diff", whole.string(), other.string()});
      INFO(other << "\n" << same.out << same.err);
      CHECK(same.exit_code == 0);
      CHECK_THAT(same.out, contains_text(" equal, 0 differ\n"));
    }
  }
}

}  // namespace tenon
