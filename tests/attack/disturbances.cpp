// SPDX-License-Identifier: Apache-2.0
//
// Clocks that jump by years at each look, and processes that are stopped for a while: a run goes
// on, and ends as if nothing had happened.
#include <algorithm>
#include <csignal>
#include <fstream>
#include <thread>

#include "tests/attack/attack.hpp"
#include "tests/attack/oracle.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

struct Undisturbed {
  std::string name;
  int num_ranks = 1;
  fs::path recipe;
  fs::path run;
  std::chrono::steady_clock::duration length = {};
};

// Recipes on two ranks, and on one if `num_ranks` says so.
std::vector<Undisturbed> undisturbed_runs(Attack& attack,
                                          const std::vector<int>& num_ranks,
                                          std::uint64_t most) {
  std::vector<Undisturbed> runs;
  for (const int ranks : num_ranks) {
    for (const AttackedRecipe& recipe : attacked_recipes()) {
      if (runs.size() == most) {
        return runs;
      }
      Undisturbed run;
      run.name = recipe.name + "-" + std::to_string(ranks);
      run.num_ranks = ranks;
      run.recipe = attack.folder() / (run.name + ".json");
      run.run = attack.folder() / run.name;
      std::ofstream(run.recipe) << recipe.text;
      const auto began = std::chrono::steady_clock::now();
      const Ended ended =
          run_to_end(run_words(run.recipe, run.run, ranks), attack.folder() / "log");
      run.length = std::chrono::steady_clock::now() - began;
      if (ended.status != 0) {
        throw std::runtime_error("the run fails: " + ended.command + "\n" + ended.log);
      }
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

// Judges a disturbed run in `folder`.
void judge_run(Attack& attack,
               const Undisturbed& of,
               const std::string& how,
               const fs::path& folder,
               const std::optional<int>& status,
               const std::string& log) {
  std::string wrong = bad_ending(status, log);
  if (wrong.empty() && status != 0) {
    wrong = "status " + std::to_string(*status) + " " + error_id_of(log);
  }
  if (wrong.empty()) {
    wrong = run_difference(of.run, folder / "run");
  }
  if (!wrong.empty()) {
    attack.found(of.name + ", " + how + ": " + wrong, folder);
  } else {
    attack.survived(how.substr(0, how.find(" for")));
  }
}

}  // namespace

void attack_clocks(Attack& attack) {
  const std::vector<Undisturbed> runs = undisturbed_runs(attack, {1, 2}, attack.count());
  for (std::uint64_t i = attack.first(); i < attack.first() + attack.count(); ++i) {
    attack.begin_case(i);
    const Undisturbed& of = runs[i % runs.size()];
    const fs::path folder = attack.folder() / "clock";
    fs::remove_all(folder);
    fs::create_directories(folder);
    const std::int64_t days = 1 + static_cast<std::int64_t>(attack.below(3 * 365));
    const std::int64_t seconds = (attack.below(2) == 0 ? -86400 : 86400) * days;
    const Ended ended =
        run_to_end(run_words(of.recipe, folder / "run", of.num_ranks),
                   folder / "log",
                   {.environment = {{"LD_PRELOAD", TENON_FAULTY_DISK},
                                    {"TENON_FAULT_PATH", (folder / "run").string()},
                                    {"TENON_FAULT_CLOCK", std::to_string(seconds)}}});
    judge_run(attack,
              of,
              std::string("a clock that jumps ") + (seconds < 0 ? "forward" : "back") + " for " +
                  std::to_string(days) + " days at each look",
              folder,
              ended.status,
              ended.log);
  }
}

void attack_stops(Attack& attack) {
  const std::vector<Undisturbed> runs = undisturbed_runs(attack, {2}, attack.count());
  for (std::uint64_t i = attack.first(); i < attack.first() + attack.count(); ++i) {
    attack.begin_case(i);
    const Undisturbed& of = runs[i % runs.size()];
    const fs::path folder = attack.folder() / "stopped";
    fs::remove_all(folder);
    fs::create_directories(folder);
    const std::uint64_t victim = attack.below(3);
    const auto after = of.length * static_cast<std::int64_t>(attack.below(800)) / 1000;
    const std::chrono::milliseconds pause(500 + attack.below(2500));  // shorter than the timeout
    Child child(run_words(of.recipe, folder / "run", of.num_ranks), folder / "log");
    std::this_thread::sleep_for(after);
    const pid_t process = victim == 2 ? child.process() : child.rank(static_cast<int>(victim));
    const bool is_stopped = process > 0 && !child.has_ended();
    if (is_stopped) {
      ::kill(process, SIGSTOP);
      std::this_thread::sleep_for(pause);
      ::kill(process, SIGCONT);
    }
    const std::optional<int> status = child.wait(std::chrono::seconds(120));
    judge_run(attack,
              of,
              (!is_stopped   ? std::string("nothing was stopped")
               : victim == 2 ? std::string("the launcher stopped")
                             : "rank " + std::to_string(victim) + " stopped") +
                  " for " + std::to_string(pause.count()) + " ms",
              folder,
              status,
              child.log());
  }
}

}  // namespace tenon
