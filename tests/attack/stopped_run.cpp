// SPDX-License-Identifier: Apache-2.0
#include "tests/attack/stopped_run.hpp"

#include <algorithm>
#include <fstream>
#include <stdexcept>

namespace tenon {

namespace fs = std::filesystem;

StoppedRun::StoppedRun(const fs::path& folder, const AttackedRecipe& recipe, int num_ranks)
    : name_(recipe.name + "-" + std::to_string(num_ranks)),
      recipe_(folder / (name_ + ".json")),
      stopped_(folder / (name_ + "-stopped")),
      whole_(folder / (name_ + "-whole")),
      num_ranks_(num_ranks) {
  std::ofstream(recipe_) << recipe.text;
  const Ended whole = run_to_end(run_words(recipe_, whole_, num_ranks), folder / "log");
  if (whole.status != 0) {
    throw std::runtime_error("the run fails: " + whole.command + "\n" + whole.log);
  }
  const Ended stopped = run_to_end(
      run_words(recipe_, stopped_, num_ranks, {"--set", "train.exit_at_step=9"}), folder / "log");
  if (stopped.status != 75) {
    throw std::runtime_error("the run does not stop: " + stopped.command + "\n" + stopped.log);
  }
  for (const auto& entry : fs::recursive_directory_iterator(stopped_)) {
    if (entry.is_regular_file() && entry.file_size() > 0) {
      files_.push_back(fs::relative(entry.path(), stopped_).string());
    }
  }
  std::ranges::sort(files_);
}

Ended StoppedRun::resume(const fs::path& run, const fs::path& log) const {
  return run_to_end(run_words(recipe_, run, num_ranks_), log);
}

std::string StoppedRun::difference(const fs::path& run, Metrics metrics) const {
  return run_difference(whole_, run, metrics);
}

std::vector<StoppedRun> stopped_runs(const fs::path& folder, std::size_t most) {
  std::vector<StoppedRun> runs;
  for (const int num_ranks : {1, 2}) {
    for (const AttackedRecipe& recipe : attacked_recipes()) {
      if (runs.size() < most) {
        runs.emplace_back(folder, recipe, num_ranks);
      }
    }
  }
  return runs;
}

bool is_only_read_by_people(const std::string& file) {
  return file == "log.txt" || file.starts_with("logs/") || file == "metrics.jsonl";
}

}  // namespace tenon
