// SPDX-License-Identifier: Apache-2.0
//
// kill -9 of any process of a run, at any moment, again and again, until the run has come to its
// end: a disk that is slow at each call makes the saves long. TENON_KILLS says how many kills (6;
// in
// `./dev test` 2), TENON_KILLS_SEED which (1), TENON_KILLS_TABLE the file that is given the table
// of them. The same command each time; after each kill
//   all that is listed, and `latest`, is whole to the last byte,
//   the newest one is no older than any that was told to be saved,
//   the run goes on from it,
// and at the end the run is, to the bit, the one that was never stopped.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/faults/started_run.hpp"
#include "tests/recipes/host_run.hpp"
#include "tests/support/members.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kDelayMs = 3;       // of each call to the disk
constexpr size_t kLongest = 150;  // calls until the kill, at most: about three saves

constexpr char kSavesOften[] = R"({
    "train": {"steps": 16},
    "parallel": {"timeout_seconds": 4, "start_timeout_seconds": 60},
    "checkpoint": {"every_steps": 2, "keep_last": 2}})";

std::string dense_recipe(const std::string& patch = "{}") {
  return patched(busy_recipe(kSavesOften), patch);
}

std::string table_recipe() {
  return patched(dense_recipe(kRowsOfTables), R"({"checkpoint": {"every_steps": 1}})");
}

std::string language_recipe() {
  return patched(small_language_recipe(kSavesOften),
                 R"({"train": {"steps": 12}, "checkpoint": {"staging": "stream"}})");
}

// The number behind the last `word` in a text; 0 where it is not there.
uint64_t number_after(const std::string& text, const std::string& word) {
  const size_t at = text.rfind(word);
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + word.size(), nullptr, 10);
}

// What a save was at, by the last call that was begun: "sync .open-step-.../index.json".
std::string phase_of(const std::string& call) {
  const auto has = [&](const char* part) { return call.find(part) != std::string::npos; };
  if (call.empty()) {
    return "no save yet";
  }
  if (has("/.gone-") || (call.starts_with("rename") && has("/COMMITTED.tmp"))) {
    return "removing an old checkpoint";
  }
  if (has("/latest")) {
    return "`latest`";
  }
  if (has(".safetensors")) {
    return "tensors";
  }
  if (has("index.json") || has("recipe.json") || has("SUMS")) {
    return "index";
  }
  return call.starts_with("mkdir") ? "opening" : "commit";
}

struct Kill {
  std::string run;
  std::string victim;
  std::string phase = {};
  std::string call = {};
  uint64_t newest = 0;  // after it, the step that the newest checkpoint is of
  std::string resumed = "-";
};

struct Kind {
  std::string name;
  std::string recipe;
  uint32_t num_ranks;
};

// One recipe in one folder, until it is over.
class KilledRun {
 public:
  explicit KilledRun(const Kind& kind) : kind_(kind) {
    recipe_ = folder_.write("recipe.json", kind.recipe);
    if (kind.num_ranks > 1) {
      arguments_ = {"--launch", std::to_string(kind.num_ranks)};
    }
  }

  // Never stopped, on a disk that is as fast as it is.
  void run_whole() {
    StartedRun whole(recipe_, folder_.path() / "whole", arguments_);
    const int code = whole.wait();
    INFO(whole.out() << whole.err());
    REQUIRE(code == 0);
  }

  // False where the run was over before. `kills` is given what was done.
  bool kill_once(std::mt19937& random, std::vector<Kill>& kills) {
    const size_t calls = random() % kLongest;
    const auto later = std::chrono::microseconds(random() % (1000 * 2 * kDelayMs));
    const bool is_by_time = random() % 8 == 0;
    const auto after = std::chrono::milliseconds(random() % 1200);
    const uint32_t choice = random() % 8;
    const fs::path log = folder_.path() / "calls";
    fs::remove(log);
    start(log);
    const auto began = Clock::now();
    wait_until([&] {
      return run_->has_ended() ||
             (is_by_time ? Clock::now() - began >= after : file_lines(log).size() >= calls);
    });
    std::this_thread::sleep_for(later);
    Kill kill{.run = kind_.name, .victim = "rank 0"};
    pid_t victim = run_->process();
    if (kind_.num_ranks > 1) {
      kill.victim = choice == 0 ? "launcher" : choice % 2 == 1 ? "rank 0" : "rank 1";
      if (choice != 0) {
        victim = run_->rank(choice % 2 == 1 ? 0 : 1);
      }
    }
    if (run_->has_ended() || victim <= 0) {
      return end(*run_);
    }
    ::kill(victim, SIGKILL);
    const std::vector<std::string> done = file_lines(log);
    std::error_code none;
    const auto quiet = fs::file_time_type::clock::now() - fs::last_write_time(log, none);
    const std::string call = done.empty() ? "" : done.back();
    kill.phase = !call.empty() && !none && quiet > std::chrono::milliseconds(10 * kDelayMs)
                     ? "between saves"
                     : phase_of(call);
    const std::string root = (run_dir() / "checkpoints").string() + "/";
    if (const size_t at = call.find(root); at != std::string::npos) {
      kill.call = call.substr(0, at) + call.substr(at + root.size());
    } else {
      kill.call = call.substr(0, call.find(' ')) + (call.empty() ? "" : " checkpoints");
    }
    const int code = run_->wait();
    wait_until([&] { return run_->processes().empty(); });
    const std::string said = run_->out();
    INFO(kind_.name << ", " << kill.victim << " killed at: " << kill.call << "\n"
                    << said << run_->err());
    if (code == 0) {  // it came too late: the run is over
      return end(*run_);
    }
    CHECK((code == 128 + SIGKILL || code == 5));
    check_resumed(said);
    newest_ = check_checkpoints(run_dir());
    CHECK(newest_.step >= sure_);
    CHECK(newest_.step >= number_after(said, "/checkpoints/step-") * (is_saved(said) ? 1 : 0));
    sure_ = std::max(sure_, newest_.step);
    kill.newest = newest_.step;
    if (!kills_.empty() && said.find("resumed from ") != std::string::npos) {
      kills[kills_.back()].resumed = std::to_string(number_after(said, ", after step "));
    }
    kills_.push_back(kills.size());
    kills.push_back(kill);
    return true;
  }

  // Goes on to the end without a kill.
  void finish(std::vector<Kill>& kills) {
    if (!is_over_) {
      start(folder_.path() / "calls");
      end(*run_);
    }
    if (!kills_.empty() && newest_.step > 0) {
      kills[kills_.back()].resumed = std::to_string(newest_.step);
    }
  }

 private:
  fs::path run_dir() const { return folder_.path() / "run"; }

  static bool is_saved(const std::string& said) { return said.find("saved ") != std::string::npos; }

  void start(const fs::path& log) {
    run_ =
        std::make_unique<StartedRun>(recipe_,
                                     run_dir(),
                                     arguments_,
                                     std::map<std::string, std::string>{
                                         {"LD_PRELOAD", TENON_FAULTY_DISK},
                                         {"TENON_FAULT_PATH", (run_dir() / "checkpoints").string()},
                                         {"TENON_FAULT_DO", "delay:" + std::to_string(kDelayMs)},
                                         {"TENON_FAULT_LOG", log.string()}});
  }

  // It went on from the newest of before, if it came so far.
  void check_resumed(const std::string& said) const {
    if (said.find("resumed from ") != std::string::npos) {
      CHECK(number_after(said, ", after step ") == newest_.step);
      CHECK_THAT(said, contains_text("/" + newest_.name + ", after step "));
    }
  }

  bool end(StartedRun& run) {
    const int code = run.wait();
    INFO(kind_.name << "\n" << run.out() << run.err());
    REQUIRE(code == 0);
    check_resumed(run.out());
    const nlohmann::json whole = summary_of(folder_.path() / "whole");
    const nlohmann::json summary = summary_of(run_dir());
    if (newest_.step > 0) {
      CHECK(summary["resumed"]["step"] == newest_.step);
    }
    CHECK(summary["parameters_hash"] == whole["parameters_hash"]);
    CHECK(summary["samples"] == whole["samples"]);
    CHECK(records_of(run_dir()) == records_of(folder_.path() / "whole"));
    CHECK(check_checkpoints(run_dir()).name == check_checkpoints(folder_.path() / "whole").name);
    is_over_ = true;
    return false;
  }

  Kind kind_;
  ScratchFolder folder_;
  fs::path recipe_;
  std::vector<std::string> arguments_;
  std::unique_ptr<StartedRun> run_;
  NewestCheckpoint newest_;
  uint64_t sure_ = 0;
  bool is_over_ = false;
  std::vector<size_t> kills_;  // of this run, in the list of all
};

uint32_t number_from(const char* variable, uint32_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? static_cast<uint32_t>(std::strtoul(text, nullptr, 10)) : otherwise;
}

void write_table(std::ostream& out, const std::vector<Kill>& kills, size_t num_ended) {
  std::map<std::string, std::map<std::string, int>> count;
  std::map<std::string, int> lost;
  for (const Kill& kill : kills) {
    ++count[kill.phase][kill.victim];
    ++count["all"][kill.victim];
  }
  out << "| phase of the save | rank 0 | rank 1 | launcher |\n|---|---|---|---|\n";
  for (auto& [phase, victims] : count) {
    out << "| " << phase << " | " << victims["rank 0"] << " | " << victims["rank 1"] << " | "
        << victims["launcher"] << " |\n";
  }
  out << "\n"
      << kills.size() << " kills, " << num_ended << " completed runs.\n\n"
      << "| | run: killed process | phase of the save: last call to the disk "
         "| newest step / resumed step |\n|---|---|---|---|\n";
  for (size_t i = 0; i < kills.size(); ++i) {
    const Kill& kill = kills[i];
    out << "| " << i + 1 << " | " << kill.run << ": " << kill.victim << " | " << kill.phase
        << (kill.call.empty() ? "" : ": `" + kill.call + "`") << " | "
        << (kill.newest > 0 ? std::to_string(kill.newest) : "none") << " / " << kill.resumed
        << " |\n";
  }
}

}  // namespace

TEST_CASE("a run that is killed repeatedly equals the run that was never killed",
          "[faults][ranks][members]") {
  const uint32_t wanted = number_from("TENON_KILLS", runs_all_members() ? 6 : 2);
  const uint32_t seed = number_from("TENON_KILLS_SEED", 1);
  std::mt19937 random(seed);
  const std::vector<Kind> kinds = {{"table, 2 ranks", table_recipe(), 2},
                                   {"language model, 1 rank", language_recipe(), 1},
                                   {"dense, 2 ranks", dense_recipe(), 2},
                                   {"table, 1 rank", table_recipe(), 1},
                                   {"language model, 2 ranks", language_recipe(), 2},
                                   {"dense, 1 rank", dense_recipe(), 1}};
  std::vector<Kill> kills;
  size_t num_ended = 0;
  for (size_t i = 0; kills.size() < wanted; ++i) {
    KilledRun run(kinds[i % kinds.size()]);
    run.run_whole();
    const size_t most = wanted <= kinds.size() ? kills.size() + 2 : wanted;
    while (kills.size() < most && run.kill_once(random, kills)) {
    }
    run.finish(kills);
    ++num_ended;
  }
  CHECK(kills.size() == wanted);
  if (const char* const file = std::getenv("TENON_KILLS_TABLE")) {
    std::ofstream out(file);
    write_table(out, kills, num_ended);
  }
  write_table(std::cout, kills, num_ended);
}

}  // namespace tenon
