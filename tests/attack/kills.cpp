// SPDX-License-Identifier: Apache-2.0
//
// kill -9 of the launcher, of one rank or of all, at any moment, several times in one run. The same
// command each time. At the end the run equals, to the bit, the one that was never killed.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "tests/attack/attack.hpp"
#include "tests/attack/oracle.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMostKillsOfARun = 6;
constexpr std::chrono::seconds kLimit{120};
constexpr std::chrono::seconds kSessionLimit{60};

struct KilledKind {
  const AttackedRecipe* recipe;
  int num_ranks;
};

// A disk that is slow, so that many kills hit a save.
ChildOptions slow_disk(const fs::path& run) {
  return {.environment = {{"LD_PRELOAD", TENON_FAULTY_DISK},
                          {"TENON_FAULT_PATH", (run / "checkpoints").string()},
                          {"TENON_FAULT_DO", "delay:2"}}};
}

std::string name_of(const KilledKind& kind) {
  return kind.recipe->name + ", " + std::to_string(kind.num_ranks) +
         (kind.num_ranks == 1 ? " rank" : " ranks");
}

// Kills a victim after a random part of the time that the unbroken run took. Returns what was
// killed; "" if the run had ended before.
std::string kill_any(Attack& attack, Child& child, int num_ranks, Clock::duration length) {
  const auto after = length * static_cast<std::int64_t>(attack.below(1000)) / 1000;
  const std::uint64_t choice = attack.below(4);
  std::this_thread::sleep_for(after);
  if (child.has_ended()) {
    return "";
  }
  if (num_ranks == 1 || choice == 0) {
    ::kill(child.process(), SIGKILL);
    return num_ranks == 1 ? "the process" : "the launcher";
  }
  if (choice == 1) {
    for (const pid_t process : child.session()) {
      ::kill(process, SIGKILL);
    }
    return "all";
  }
  const int rank = static_cast<int>(choice - 2);
  const pid_t victim = child.rank(rank);
  if (victim <= 0) {
    return "";
  }
  ::kill(victim, SIGKILL);
  return "rank " + std::to_string(rank);
}

// One run, killed up to `most` times. Returns the number of kills.
std::uint64_t kill_one_run(Attack& attack,
                           const KilledKind& kind,
                           const fs::path& whole,
                           Clock::duration length,
                           const fs::path& recipe,
                           std::uint64_t most) {
  const fs::path folder = attack.folder() / "killed";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const fs::path run = folder / "run";
  const std::vector<std::string> words = run_words(recipe, run, kind.num_ranks);
  std::vector<std::string> victims;
  std::string wrong;
  bool is_over = false;
  // Some tries come too late.
  for (std::uint64_t i = 0; victims.size() < most && i < 2 * most && !is_over && wrong.empty();
       ++i) {
    Child child(words, folder / ("log-" + std::to_string(i)), slow_disk(run));
    const std::string victim = kill_any(attack, child, kind.num_ranks, length);
    const std::optional<int> status = child.wait(kLimit);
    wrong = bad_ending(status, child.log());
    if (wrong.empty() && !child.wait_for_session(kSessionLimit)) {
      wrong = "processes are left behind";
    }
    is_over = status == 0;
    if (!victim.empty()) {
      victims.push_back(victim);
    }
    if (wrong.empty() && !is_over && status != 128 + SIGKILL && status != 5) {
      wrong = "it ended with status " + std::to_string(status.value_or(-1)) + ": " +
              error_id_of(child.log());
    }
  }
  if (wrong.empty() && !is_over) {
    const Ended last = run_to_end(words, folder / "log-last");
    wrong = bad_ending(last.status, last.log);
    if (wrong.empty() && last.status != 0) {
      wrong = "it did not resume: " + error_id_of(last.log);
    }
  }
  if (wrong.empty()) {
    wrong = run_difference(whole, run);
  }
  if (!wrong.empty()) {
    attack.found(name_of(kind) + ", killed " + std::to_string(victims.size()) + " times (last " +
                     (victims.empty() ? "none" : victims.back()) + "): " + wrong,
                 folder);
    return victims.empty() ? 1 : victims.size();
  }
  for (const std::string& victim : victims) {
    attack.survived(name_of(kind) + ": " + victim + " killed");
  }
  return victims.size();
}

// The unbroken run of a kind, which is trained when it is needed first.
class WholeRun {
 public:
  WholeRun(const fs::path& folder, const KilledKind& kind)
      : kind_(kind),
        name_(kind.recipe->name + "-" + std::to_string(kind.num_ranks)),
        folder_(folder) {}

  const KilledKind& kind() const { return kind_; }
  fs::path recipe() const { return folder_ / (name_ + ".json"); }
  fs::path run() const { return folder_ / name_; }

  // How long it took.
  // Errors   std::runtime_error if the run fails
  Clock::duration train() {
    if (length_ == Clock::duration::zero()) {
      std::ofstream(recipe()) << kind_.recipe->text;
      const auto began = Clock::now();
      const Ended ended = run_to_end(run_words(recipe(), run(), kind_.num_ranks),
                                     folder_ / (name_ + ".log"),
                                     slow_disk(run()));
      if (ended.status != 0) {
        throw std::runtime_error("a run that nobody kills fails: " + ended.log);
      }
      length_ = Clock::now() - began;
    }
    return length_;
  }

 private:
  KilledKind kind_;
  std::string name_;
  fs::path folder_;
  Clock::duration length_ = Clock::duration::zero();
};

}  // namespace

void attack_kills(Attack& attack) {
  std::vector<WholeRun> wholes;
  for (const int num_ranks : {2, 1}) {
    for (const AttackedRecipe& recipe : attacked_recipes()) {
      wholes.emplace_back(attack.folder(), KilledKind{&recipe, num_ranks});
    }
  }
  std::uint64_t done = 0;
  const std::uint64_t first = attack.first();
  for (std::uint64_t i = first; done < attack.count() && i < first + 10 * attack.count(); ++i) {
    attack.begin_case(i);
    WholeRun& whole = wholes[i % wholes.size()];
    const std::uint64_t most = std::min(1 + attack.below(kMostKillsOfARun), attack.count() - done);
    done += kill_one_run(attack, whole.kind(), whole.run(), whole.train(), whole.recipe(), most);
  }
}

}  // namespace tenon
