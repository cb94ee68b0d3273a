// SPDX-License-Identifier: Apache-2.0
//
// A disk that is full from any write on, for good or once, or after any number of bytes. The run
// ends as documented, every listed checkpoint is valid, and after room is made the same command
// ends as if nothing had happened.
#include <algorithm>
#include <fstream>
#include <map>

#include "tests/attack/attack.hpp"
#include "tests/attack/oracle.hpp"
#include "tests/support/read_files.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

struct Whole {
  std::string name;
  int num_ranks;
  fs::path recipe;
  fs::path run;
  std::uint64_t num_calls;  // to the disk, in its run folder
};

std::map<std::string, std::string> shim(const fs::path& run) {
  return {{"LD_PRELOAD", TENON_FAULTY_DISK},
          {"TENON_FAULT_PATH", run.string()},
          {"TENON_FAULT_CALLS", "open,write,mkdir,rename,sync"}};
}

Whole train_whole(Attack& attack, const AttackedRecipe& recipe, int num_ranks) {
  Whole whole;
  whole.name = recipe.name + "-" + std::to_string(num_ranks);
  whole.num_ranks = num_ranks;
  whole.recipe = attack.folder() / (whole.name + ".json");
  whole.run = attack.folder() / whole.name;
  std::ofstream(whole.recipe) << recipe.text;
  ChildOptions options{.environment = shim(whole.run)};
  const fs::path calls = attack.folder() / "calls";
  options.environment["TENON_FAULT_LOG"] = calls.string();
  const Ended ended =
      run_to_end(run_words(whole.recipe, whole.run, num_ranks), attack.folder() / "log", options);
  if (ended.status != 0) {
    throw std::runtime_error("the run fails: " + ended.command + "\n" + ended.log);
  }
  whole.num_calls = std::max<std::uint64_t>(1, file_lines(calls).size());
  fs::remove(calls);
  return whole;
}

void fill_disk_once(Attack& attack, const Whole& whole) {
  const fs::path folder = attack.folder() / "full";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const fs::path run = folder / "run";
  ChildOptions options{.environment = shim(run)};
  const std::uint64_t nth = 1 + attack.below(whole.num_calls / whole.num_ranks + 1);
  std::string how = whole.name + ", ";
  switch (attack.below(4)) {
    case 0:
      options.environment["TENON_FAULT_DO"] = "ENOSPC";
      options.environment["TENON_FAULT_NTH"] = std::to_string(nth);
      how += "no space at call " + std::to_string(nth);
      break;
    case 1: {
      const std::uint64_t bytes = attack.below(120'000);
      options.environment["TENON_FAULT_DO"] = "full:" + std::to_string(bytes);
      how += "full after " + std::to_string(bytes) + " bytes";
      break;
    }
    default:
      options.environment["TENON_FAULT_DO"] = "ENOSPC";
      options.environment["TENON_FAULT_NTH"] = std::to_string(nth) + "+";
      how += "no space from call " + std::to_string(nth) + " on";
      break;
  }
  const std::vector<std::string> words = run_words(whole.recipe, run, whole.num_ranks);
  const Ended ended = run_to_end(words, folder / "full.log", options);
  if (const std::string bad = bad_ending(ended.status, ended.log); !bad.empty()) {
    attack.found(how + ": " + bad, folder);
    return;
  }
  if (ended.status == 0) {
    if (const std::string wrong = run_difference(whole.run, run, Metrics::kIgnore);
        !wrong.empty()) {
      attack.found(how + ": status 0, but " + wrong, folder);
      return;
    }
  }
  if (!checkpoint_names(run).empty()) {
    const Ended verified = act_on("--verify", run, folder / "verify.log");
    if (verified.status != 0) {
      attack.found(how + ": a checkpoint is corrupt: " + verified.log, folder);
      return;
    }
  }
  if (ended.status != 0) {
    const Ended resumed = run_to_end(words, folder / "resume.log");
    if (resumed.status != 0) {
      attack.found(how + ": with room again, it does not resume: " + error_id_of(resumed.log),
                   folder);
      return;
    }
    if (const std::string wrong = run_difference(whole.run, run, Metrics::kIgnore);
        !wrong.empty()) {
      attack.found(how + ": resumed, but " + wrong, folder);
      return;
    }
  }
  attack.survived("status " + std::to_string(*ended.status) +
                  (ended.status == 0 ? "" : " " + error_id_of(ended.log)));
}

}  // namespace

void attack_disk(Attack& attack) {
  std::vector<Whole> wholes;
  for (const int num_ranks : {1, 2}) {
    for (const AttackedRecipe& recipe : attacked_recipes()) {
      if (wholes.size() < attack.count()) {
        wholes.push_back(train_whole(attack, recipe, num_ranks));
      }
    }
  }
  for (std::uint64_t i = attack.first(); i < attack.first() + attack.count(); ++i) {
    attack.begin_case(i);
    fill_disk_once(attack, wholes[i % wholes.size()]);
  }
}

}  // namespace tenon
