// SPDX-License-Identifier: Apache-2.0
//
// What ranks of --launch leave behind, whatever ends them: no process, no port that is listened on,
// no shared memory, no temporary file; and a run folder that the same command goes on in.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <vector>

#include "tests/faults/started_run.hpp"
#include "tests/recipes/host_run.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

// It goes on until it is stopped, and saves all the while.
std::string endless_recipe(const std::string& patch = "{}") {
  nlohmann::json recipe = nlohmann::json::parse(small_recipe(R"({
    "data": {"batch_size": 2},
    "train": {"steps": 1000000, "log_every": 1, "global_batch_size": 8},
    "parallel": {"timeout_seconds": 4, "start_timeout_seconds": 60},
    "checkpoint": {"every_steps": 2, "keep_last": 2}})"));
  recipe.merge_patch(nlohmann::json::parse(patch));
  return recipe.dump(2);
}

// Names of sockets that are listened on, with their ports: of /proc/net/tcp and tcp6.
std::map<std::string, std::string> listened() {
  std::map<std::string, std::string> ports;
  for (const char* const file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);  // the heading
    while (std::getline(in, line)) {
      std::istringstream fields(line);
      std::vector<std::string> words{std::istream_iterator<std::string>(fields), {}};
      if (words.size() > 9 && words[3] == "0A") {
        ports["socket:[" + words[9] + "]"] = words[1];
      }
    }
  }
  return ports;
}

// Sockets that these processes listen on, and names of shared memory that they have mapped.
struct Holdings {
  std::set<std::string> sockets;
  std::set<std::string> memory;
};

Holdings holdings_of(const std::vector<pid_t>& processes) {
  Holdings held;
  const auto ports = listened();
  for (const pid_t process : processes) {
    const fs::path proc = "/proc/" + std::to_string(process);
    std::error_code gone;
    for (auto file = fs::directory_iterator(proc / "fd", gone);
         !gone && file != fs::directory_iterator();
         file.increment(gone)) {
      std::error_code closed;
      const std::string target = fs::read_symlink(file->path(), closed).string();
      if (ports.contains(target)) {
        held.sockets.insert(target);
      }
    }
    std::ifstream maps(proc / "maps");
    for (std::string line; std::getline(maps, line);) {
      if (const size_t name = line.find("/dev/shm/"); name != std::string::npos) {
        held.memory.insert(line.substr(name, line.find(' ', name) - name));
      }
    }
  }
  return held;
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

class Ways {
 public:
  Ways() { fs::create_directory(temporary()); }

  std::unique_ptr<StartedRun> start(const std::string& name,
                                    const std::string& recipe,
                                    std::vector<std::string> more = {},
                                    std::map<std::string, std::string> environment = {}) const {
    environment["TMPDIR"] = temporary().string();
    more.insert(more.begin(), {"--launch", "2"});
    return std::make_unique<StartedRun>(
        folder_.write(name + ".json", recipe), path(name), more, environment);
  }

  // Until figures are written, and a checkpoint.
  void await_training(const StartedRun& run, const std::string& name) const {
    wait_until([&] {
      return run.has_ended() || (fs::exists(path(name) / "checkpoints" / "latest") &&
                                 run.rank(0) > 0 && run.rank(1) > 0);
    });
    INFO(run.out() << run.err());
    REQUIRE_FALSE(run.has_ended());
  }

  // `end` ends it while it trains, as it may; it has `code` then.
  void check_leaves_nothing(const std::string& name,
                            StartedRun& run,
                            const std::function<void(StartedRun&)>& end,
                            int code) const {
    const Holdings held = holdings_of(run.session());
    CHECK(held.sockets.size() >= 1);  // the store's, or this looks for nothing
    end(run);
    const int ended_with = run.wait();
    INFO(name << "\n" << run.out() << run.err());
    CHECK(ended_with == code);
    // Where the launcher is killed, the system ends the ranks, which may take a moment.
    wait_until([&] { return run.session().empty(); });
    // Threads of a process that is gone may still be on their way out, with its files.
    wait_until([&] {
      const auto ports = listened();
      return std::ranges::none_of(
          held.sockets, [&](const std::string& socket) { return ports.contains(socket); });
    });
    CHECK(held.memory.empty());
    const std::set<std::string> shared = names_in("/dev/shm");
    std::set<std::string> new_ones;
    std::ranges::set_difference(shared, shared_before_, std::inserter(new_ones, new_ones.begin()));
    for (const std::string& entry : new_ones) {  // unless another program's has come meanwhile
      struct stat status {};
      INFO(entry);
      CHECK((::stat(("/dev/shm/" + entry).c_str(), &status) != 0 || is_held_by_any(entry)));
    }
    CHECK(names_in(temporary()).empty());
  }

  // The same command goes on, and puts in order what was begun.
  void check_goes_on(const std::string& name, const std::string& recipe) const {
    const uint64_t saved = check_checkpoints(path(name)).step;
    const auto run = start(name, recipe, {"--set", "train.exit_after_steps=1"});
    const int code = run->wait();
    INFO(run->out() << run->err());
    CHECK(code == 75);
    CHECK(check_checkpoints(path(name)).step == saved + 1);
    for (const std::string& entry : names_in(path(name) / "checkpoints")) {
      CHECK_FALSE(entry.starts_with("."));
    }
    CHECK_FALSE(fs::exists(path(name) / ".lock"));
    CHECK(run->session().empty());
    CHECK(names_in(temporary()).empty());
  }

  fs::path path(const std::string& name) const { return folder_.path() / name; }

 private:
  fs::path temporary() const { return folder_.path() / "tmp"; }

  static bool is_held_by_any(const std::string& name) {
    std::vector<pid_t> all;
    for (const std::string& process : names_in("/proc")) {
      if (std::ranges::all_of(process, [](char c) { return c >= '0' && c <= '9'; })) {
        all.push_back(std::stoi(process));
      }
    }
    return holdings_of(all).memory.contains("/dev/shm/" + name);
  }

  ScratchFolder folder_;
  std::set<std::string> shared_before_ = names_in("/dev/shm");
};

}  // namespace

TEST_CASE("whichever process is killed, nothing is left behind", "[faults][ranks][.release]") {
  const Ways ways;
  const std::string recipe = endless_recipe();
  const auto run_and_end = [&](const std::string& name, int code, const auto& end) {
    const auto run = ways.start(name, recipe);
    ways.await_training(*run, name);
    ways.check_leaves_nothing(name, *run, end, code);
    ways.check_goes_on(name, recipe);
  };
  run_and_end("launcher", 137, [](StartedRun& run) { run.signal(SIGKILL); });
  run_and_end("first", 5, [](StartedRun& run) { ::kill(run.rank(0), SIGKILL); });
  run_and_end("second", 5, [](StartedRun& run) { ::kill(run.rank(1), SIGKILL); });
  run_and_end("crashed", 5, [](StartedRun& run) { ::kill(run.rank(1), SIGSEGV); });
  // Stopped, and never to be continued.
  run_and_end("stopped", 5, [](StartedRun& run) { ::kill(run.rank(1), SIGSTOP); });
}

TEST_CASE("signals that request an end leave nothing behind, the first and the second",
          "[faults][ranks][.release]") {
  const Ways ways;
  for (const int signal : {SIGTERM, SIGINT}) {
    const std::string name = "asked-" + std::to_string(signal);
    const std::string recipe = endless_recipe();
    const auto run = ways.start(name, recipe);
    ways.await_training(*run, name);
    ways.check_leaves_nothing(
        name, *run, [&](StartedRun& r) { r.signal(signal); }, 75);
    ways.check_goes_on(name, recipe);
  }
  // A rank that does not come to an end in order, so that there is time for a second signal.
  for (const int signal : {SIGTERM, SIGINT}) {
    const std::string name = "urged-" + std::to_string(signal);
    const fs::path mark = ways.path(name + ".mark");
    const auto run = ways.start(name,
                                endless_recipe(R"({"parallel": {"timeout_seconds": 100},
      "hooks": [{"type": "fail_at", "options": {"event": "after_step", "step": 5, "how": "hang",
                 "rank": 1, "mark": ")" + mark.string() +
                                               R"("}}]})"));
    wait_until([&] { return run->has_ended() || fs::exists(mark); });
    ways.await_training(*run, name);
    ways.check_leaves_nothing(
        name,
        *run,
        [&](StartedRun& r) {
          r.signal(signal);
          // Signals that come within a second are one.
          const auto begin = std::chrono::steady_clock::now();
          wait_until([&] {
            return std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(1200);
          });
          r.signal(signal);
        },
        128 + signal);
  }
}

TEST_CASE("a full disk and restarted ranks leave nothing behind", "[faults][ranks][.release]") {
  const Ways ways;
  const std::string stops =
      endless_recipe(R"({"checkpoint": {"on_failure": "stop", "retries": 0}})");
  const auto full = ways.start("full",
                               stops,
                               {},
                               {{"LD_PRELOAD", TENON_FAULTY_DISK},
                                {"TENON_FAULT_PATH", (ways.path("full") / "checkpoints").string()},
                                {"TENON_FAULT_DO", "full:2000000"}});
  ways.await_training(*full, "full");
  ways.check_leaves_nothing(
      "full", *full, [](StartedRun&) {}, 5);
  ways.check_goes_on("full", stops);

  const std::string recipe = endless_recipe();
  const auto again = ways.start("again", recipe, {"--max-restarts", "1"});
  ways.await_training(*again, "again");
  const auto kill_rank_1 = [&](StartedRun& run) {
    const pid_t first = run.rank(1);
    ::kill(first, SIGKILL);
    wait_until([&] {
      const pid_t now = run.rank(1);
      return run.has_ended() ||
             (now > 0 && now != first && fs::exists(ways.path("again") / "errors-1"));
    });
    ::kill(run.rank(1), SIGKILL);
  };
  ways.check_leaves_nothing("again", *again, kill_rank_1, 5);
  ways.check_goes_on("again", recipe);
}

TEST_CASE("a launcher that is killed while its ranks start leaves nothing behind",
          "[faults][ranks]") {
  const Ways ways;
  const std::string recipe = endless_recipe();
  for (const size_t processes : {1u, 2u, 3u}) {
    const std::string name = "early-" + std::to_string(processes);
    // Without what is known of plugins, so that they are tried, in processes of their own.
    const auto run = ways.start(name, recipe, {"--no-vet-cache"});
    wait_until([&] { return run->session().size() >= processes; });
    run->signal(SIGKILL);
    CHECK(run->wait() == 137);
    wait_until([&] { return run->session().empty(); });
  }
}

}  // namespace tenon
