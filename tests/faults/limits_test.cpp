// SPDX-License-Identifier: Apache-2.0
//
// Limits of processes, threads and memory: whatever is refused, a program ends by itself and names
// the limit. And what others see of its processes: their names, and what a stranger's bytes do.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <unistd.h>
#include <vector>

#include "tests/faults/started_run.hpp"
#include "tests/recipes/host_run.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/raw_connection.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

// Runs the host as a user who has no other processes, with a limit of processes and threads. A
// limit does not bind root. The host is killed after a minute, with status 137.
SubprocessResult host_with_processes(int count, const std::vector<std::string>& more) {
  std::vector<std::string> words = host_command({"timeout",
                                                 "--signal=KILL",
                                                 "60",
                                                 "prlimit",
                                                 "--nproc=" + std::to_string(count),
                                                 "setpriv",
                                                 "--reuid=64999",
                                                 "--clear-groups"});
  words.insert(words.end(), more.begin(), more.end());
  return run_subprocess(words);
}

bool can_limit_processes() {
  return ::geteuid() == 0 && host_with_processes(64, {"--version"}).exit_code == 0;
}

// A value of the environment of a process.
std::string variable_of(pid_t process, const std::string& name) {
  const std::string all = '\0' + file_text("/proc/" + std::to_string(process) + "/environ");
  const std::string before = '\0' + name + "=";
  const size_t at = all.find(before);
  REQUIRE(at != std::string::npos);
  const size_t begin = at + before.size();
  return all.substr(begin, all.find('\0', begin) - begin);
}

// Runs until it is stopped.
std::string endless(const std::string& patch = "{}") {
  return patched(small_recipe(R"({"train": {"steps": 1000000}})"), patch);
}

}  // namespace

TEST_CASE("a limit of processes that forbids to check plugins is named", "[faults]") {
  if (!can_limit_processes()) {
    TENON_SKIP("needs root, prlimit and setpriv, and a build that other users can read");
  }
  const SubprocessResult result = host_with_processes(1, {"--print-schema", "--no-vet-cache"});
  INFO(result.err);
  CHECK(result.exit_code == 5);
  CHECK_THAT(result.err,
             contains_text("[run.out_of_resources] cannot check plugins in a child process: fork: "
                           "Resource temporarily unavailable; raise ulimit -u"));
}

// Each start of a thread or a process is refused once, from the first one on.
TEST_CASE("whichever thread is refused, a run ends and names the limit", "[faults]") {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  TENON_SKIP("sanitizers start threads of their own");
#endif
  if (!can_limit_processes()) {
    TENON_SKIP("needs root, prlimit and setpriv, and a build that other users can read");
  }
  const ScratchFolder folder;
  const fs::path recipe = folder.write("recipe.json", small_recipe());
  fs::permissions(folder.path(), fs::perms::all);
  int num_refused = 0;
  int num_done = 0;
  for (const int threads : {1, 4}) {
    for (int processes = 1; processes <= 12; ++processes) {
      const std::string name = std::to_string(threads) + "-" + std::to_string(processes);
      const SubprocessResult run =
          host_with_processes(processes,
                              {"--recipe",
                               recipe.string(),
                               "--run-dir",
                               (folder.path() / name).string(),
                               "--set",
                               "threads.compute=" + std::to_string(threads)});
      INFO(name << "\n" << run.out << run.err);
      if (run.exit_code == 0) {
        ++num_done;
        continue;
      }
      ++num_refused;
      CHECK(run.exit_code == 5);
      CHECK_THAT(run.err, contains_text("[run.out_of_resources]"));
      CHECK_THAT(run.err, contains_text("raise ulimit -u"));
    }
  }
  CHECK(num_refused >= 4);
  CHECK(num_done >= 4);
}

// A container's pids.max counts the threads of all ranks together.
TEST_CASE("whichever thread of two ranks is refused, the run names the limit", "[faults][ranks]") {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  TENON_SKIP("sanitizers start threads of their own");
#endif
  if (!can_limit_processes()) {
    TENON_SKIP("needs root, prlimit and setpriv, and a build that other users can read");
  }
  const ScratchFolder folder;
  const fs::path recipe = folder.write("recipe.json", small_recipe());
  fs::permissions(folder.path(), fs::perms::all);
  int num_refused = 0;
  for (int processes = 9; processes <= 21; processes += 3) {
    const SubprocessResult run =
        host_with_processes(processes,
                            {"--recipe",
                             recipe.string(),
                             "--launch",
                             "2",
                             "--run-dir",
                             (folder.path() / std::to_string(processes)).string()});
    INFO(processes << "\n" << run.out << run.err);
    if (run.exit_code != 0) {
      ++num_refused;
      CHECK(run.exit_code == 5);
      CHECK_THAT(run.out + run.err, contains_text("raise ulimit -u"));
    }
  }
  CHECK(num_refused >= 2);
}

// Below a first limit, the dynamic linker cannot load the program, with status 127.
TEST_CASE("too little memory to load libtorch is named", "[faults]") {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  TENON_SKIP("sanitizers need terabytes of addresses themselves");
#endif
  int num_named = 0;
  std::uint64_t mebibytes = 64;
  for (int code = -1; code != 0; mebibytes += 4) {
    REQUIRE(mebibytes < 4096);
    const SubprocessResult result =
        run_subprocess({host_program().string(), "--version"}, {.memory_limit = mebibytes << 20});
    INFO(mebibytes << " MiB\n" << result.err);
    code = result.exit_code;
    REQUIRE((code == 0 || code == 5 || code == 127));
    if (code == 5) {
      ++num_named;
      CHECK(result.err ==
            "host: [run.out_of_memory] no memory is left to load libtorch; raise ulimit -v, or "
            "free memory on the machine\n");
    }
  }
  CHECK(num_named > 0);
}

TEST_CASE("ps and top show the number of a rank, and ranks suggest commands that can be run",
          "[faults][ranks]") {
  const ScratchFolder folder;
  const fs::path run_dir = folder.path() / "run";
  StartedRun run(folder.write("recipe.json", endless()),
                 run_dir,
                 {"--launch", "2", "--max-restarts", "1", "--bind=none"});
  wait_until([&] { return run.has_ended() || fs::exists(run_dir / "metrics.jsonl"); });
  REQUIRE_FALSE(run.has_ended());
  for (const uint32_t rank : {0u, 1u}) {
    const std::string process = "/proc/" + std::to_string(run.rank(rank));
    const std::string name = "host rank " + std::to_string(rank);
    CHECK(file_text(process + "/comm") == name + "\n");
    // The path is that of the launcher's call.
    const std::string title = host_program().string() + " rank " + std::to_string(rank);
    CHECK(file_text(process + "/cmdline").starts_with(title + '\0'));
  }
  run.signal(SIGTERM);
  CHECK(run.wait() == 75);
  constexpr const char* kCommand = "host --launch 2 --max-restarts 1 --bind=none --recipe ";
  const std::string folder_of_program = host_program().parent_path().string();
  CHECK_THAT(run.out(), contains_text("next: " + folder_of_program + "/" + kCommand));
  CHECK_THAT(summary_of(run_dir)["command_line"].get<std::string>(), contains_text(kCommand));
}

// The first query of a client of c10d's store, and a key of 2^64 - 1 bytes.
TEST_CASE("a stranger's bytes at the store cost one line of the log", "[faults][ranks]") {
  const ScratchFolder folder;
  const fs::path run_dir = folder.path() / "run";
  StartedRun run(folder.write("recipe.json", endless()), run_dir, {"--launch", "2"});
  wait_until([&] { return run.has_ended() || fs::exists(run_dir / "metrics.jsonl"); });
  REQUIRE_FALSE(run.has_ended());
  const auto port = static_cast<uint16_t>(std::stoi(variable_of(run.rank(1), "MASTER_PORT")));
  const std::string bytes = std::string("\x00\xce\xf7\x85\x3c\x01", 6) + std::string(40, '\xff');
  for (int i = 0; i < 2; ++i) {
    RawConnection(port, std::chrono::seconds(5)).answer_to(bytes);
  }
  const std::string said = "refused a connection to the store of the ranks from 127.0.0.1";
  wait_until([&] { return run.has_ended() || run.err().find(said) != std::string::npos; });
  run.signal(SIGTERM);
  CHECK(run.wait() == 75);
  INFO(run.err());
  const size_t first = run.err().find(said);
  REQUIRE(first != std::string::npos);
  CHECK(run.err().find(said, first + 1) == std::string::npos);
  CHECK_THAT(run.err(), !contains_text("frame #"));
  CHECK_THAT(run.err(), !contains_text("Exception raised"));
}

}  // namespace tenon
