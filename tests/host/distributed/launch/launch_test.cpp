// SPDX-License-Identifier: Apache-2.0
//
// The launcher, with shell scripts for ranks. That ranks train is tested in tests/ranks.
#include "host/distributed/launch/launch.hpp"

#include "host/distributed/launch/rank_process.hpp"
#include "host/distributed/ranks/store_server.hpp"
#include "host/error/error.hpp"
#include "host/log/log.hpp"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

using std::chrono::milliseconds;

// What each rank does: a script, in which $RANK is its own. All wait for each other at `meet`, so
// that none is too late for a signal.
struct Ranks {
  ScratchFolder folder;
  LaunchRequest request;
  std::vector<EndedRank> ends;

  explicit Ranks(uint32_t num_ranks, const std::string& script) {
    const std::string begin =
        "cd '" + folder.path().string() +
        "'\n"
        "meet() {\n"
        "  : >here-$RANK\n"
        "  until [ $(ls here-* 2>/dev/null | wc -l) = $WORLD_SIZE ]; do :; done\n"
        "}\n";
    request.program = "/bin/sh";
    request.words = {"sh", "-c", begin + script};
    request.ranks.resize(num_ranks);
    request.patience = milliseconds(60'000);
    request.master_port = 4711;
    request.run_id = new_run_id();
    request.on_end = [this](const EndedRank& end) {
      ends.push_back(end);
      return EndVerdict();
    };
  }

  LaunchOutcome run() { return launch_ranks(request); }

  std::string file(const std::string& name) const {
    std::ifstream stream(folder.path() / name);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
};

bool is_alive(pid_t pid) {
  return ::kill(pid, 0) == 0;
}

}  // namespace

TEST_CASE("each rank is told who it is, as --launch does", "[distributed]") {
  Ranks ranks(3, "env > env-$RANK; cat <&0 > in-$RANK 2>&1");
  ranks.request.ranks[2].threads = 5;
  ranks.request.slots = {0, 2, 3};
  REQUIRE(ranks.run().code == 0);
  CHECK(ranks.ends.size() == 3);
  CHECK(ranks.request.run_id != new_run_id());
  for (uint32_t rank = 0; rank < 3; ++rank) {
    Environment environment;
    std::istringstream lines(ranks.file("env-" + std::to_string(rank)));
    for (std::string line; std::getline(lines, line);) {
      environment[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
    }
    const RankEnvironment told = read_rank_environment(environment);
    CHECK(told.launcher == "launch");
    CHECK(told.rank == rank);
    CHECK(told.local_rank == rank);
    CHECK(told.world_size == 3);
    CHECK(told.local_world_size == 3);
    CHECK(told.master_addr == "127.0.0.1");
    CHECK(told.master_port == 4711);
    CHECK(told.is_store_served);
    CHECK(told.threads == (rank == 2 ? 5 : 1));
    CHECK(told.slot == ranks.request.slots[rank]);
    CHECK(told.run_id == ranks.request.run_id);
  }
}

TEST_CASE("the process title of a rank shows its number", "[distributed]") {
  Ranks ranks(2, "cat /proc/$$/cmdline > line-$RANK");
  REQUIRE(ranks.run().code == 0);
  CHECK(ranks.file("line-0").starts_with(std::string("sh rank 0\0-c", 12)));
  CHECK(ranks.file("line-1").starts_with(std::string("sh rank 1\0-c", 12)));

  CHECK(rank_title("host", 12) == "host rank 12");
  CHECK(without_rank_title("host rank 12") == "host");
  for (const char* const name : {"host", "host rank", "host rank ", "rank 1", "12", "", "host2"}) {
    CHECK(without_rank_title(name) == name);
  }
}

TEST_CASE("a rank runs on its processors alone", "[distributed]") {
  const int processor = allowed_processors().back();
  Ranks ranks(2, "grep Cpus_allowed_list /proc/self/status > mask-$RANK");
  ranks.request.ranks[1].processors = {processor};
  REQUIRE(ranks.run().code == 0);
  CHECK(ranks.file("mask-1") == "Cpus_allowed_list:\t" + std::to_string(processor) + "\n");
  CHECK(ranks.file("mask-0") ==
        "Cpus_allowed_list:\t" + processors_text(allowed_processors()) + "\n");
}

TEST_CASE("the exit status is that of the ranks, or of the first failure", "[distributed]") {
  const auto code_of = [](const std::string& script) {
    Ranks ranks(2, script);
    return ranks.run().code;
  };
  CHECK(code_of("exit 0") == 0);
  CHECK(code_of("exit 75") == 75);
  CHECK(code_of("exit 6") == 6);
  CHECK(code_of("[ $RANK = 0 ] && exit 0; exit 75") == 75);
  // Rank 0 fails when rank 1 is gone.
  CHECK(code_of("[ $RANK = 1 ] && echo $$ >pid; meet; [ $RANK = 1 ] && exit 3\n"
                "while kill -0 $(cat pid); do :; done; exit 5") == 3);
  CHECK(code_of("[ $RANK = 0 ] && exit 0; kill -KILL $$") == 5);
  CHECK(code_of("[ $RANK = 0 ] && exit 0; kill -SEGV $$") == 5);
}

TEST_CASE("what a rank without a terminal said last is kept", "[distributed]") {
  Ranks ranks(3,
              "[ $RANK = 1 ] || exit 0\n"
              "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i + 1)); done\n"
              "echo 'all is lost' >&2; kill -KILL $$");
  const LaunchOutcome outcome = ranks.run();
  CHECK(outcome.code == 5);
  REQUIRE(outcome.first_failure.has_value());
  const EndedRank& end = *outcome.first_failure;
  CHECK(end.rank == 1);
  CHECK(end.signal == SIGKILL);
  CHECK_FALSE(end.was_ended);
  REQUIRE(end.last_lines.size() == 10);
  CHECK(end.last_lines.back() == "all is lost");
  CHECK(end.last_lines[8] == "line 2999");
  const std::string text = rank_end_text(end);
  CHECK_THAT(text, contains_text("rank 1 (process " + std::to_string(end.pid) + ") ended "));
  CHECK_THAT(text, contains_text("by signal 9 (SIGKILL), which the system also sends"));
  CHECK_THAT(text, contains_text("last output:\n  line 2991\n"));
}

TEST_CASE("ranks that go on when one has failed are ended in time", "[distributed]") {
  Ranks ranks(3,
              "trap '' TERM; meet; [ $RANK = 2 ] && exit 5\n"
              "while :; do sleep 1; done");
  ranks.request.patience = milliseconds(50);
  ranks.request.times.to_end = milliseconds(50);
  const LaunchOutcome outcome = ranks.run();
  CHECK(outcome.code == 5);
  REQUIRE(ranks.ends.size() == 3);
  CHECK(ranks.ends.front().rank == 2);
  for (const size_t i : {1, 2}) {
    CHECK(ranks.ends[i].signal == SIGKILL);
    CHECK(ranks.ends[i].was_ended);
    CHECK_FALSE(is_alive(ranks.ends[i].pid));
  }
}

TEST_CASE("others wait less for a rank that failed before its first step", "[distributed]") {
  Ranks ranks(2, "meet; [ $RANK = 1 ] && exit 4; while :; do sleep 1; done");
  ranks.request.times.short_patience = milliseconds(10);
  CHECK(ranks.run().code == 4);
  CHECK(ranks.ends.back().signal == SIGTERM);
}

TEST_CASE("a signal to the launcher is handed on once", "[distributed]") {
  Ranks ranks(3,
              "trap 'echo told >>told-$RANK; exit 75' TERM; meet\n"
              "[ $RANK = 1 ] && kill -TERM $PPID\n"
              "while :; do sleep 0.01; done");
  const LaunchOutcome outcome = ranks.run();
  CHECK(outcome.code == 75);
  CHECK(outcome.signal == 0);
  CHECK_FALSE(outcome.first_failure.has_value());
  for (const char* const file : {"told-0", "told-1", "told-2"}) {
    CHECK(ranks.file(file) == "told\n");
  }
}

TEST_CASE("SIGUSR1 goes to the first rank each time, and ends none", "[distributed]") {
  // A shell cannot handle a signal that was ignored when it started, as it is for each rank.
  const std::string script = R"(
import glob, os, signal
rank = os.environ['RANK']
def write(*_):
    with open('asked-' + rank, 'a') as file:
        file.write('asked\n')
signal.signal(signal.SIGUSR1, write)
open('here-' + rank, 'w').close()
while len(glob.glob('here-*')) < 2:
    pass
for n in (1, 2):
    if rank == '1':
        os.kill(os.getppid(), signal.SIGUSR1)
    while not os.path.exists('asked-0') or len(open('asked-0').readlines()) < n:
        pass
)";
  Ranks ranks(2, "");
  ranks.request.program = "/usr/bin/env";
  ranks.request.words = {"env", "-C", ranks.folder.path().string(), "python3", "-c", script};
  const LaunchOutcome outcome = ranks.run();
  CHECK(outcome.code == 0);
  CHECK_FALSE(outcome.was_asked);
  CHECK(ranks.file("asked-0") == "asked\nasked\n");
  CHECK(ranks.file("asked-1").empty());
}

TEST_CASE("SIGUSR1 ends no rank that does not handle it yet", "[distributed]") {
  Ranks ranks(2, "kill -USR1 $$; meet; [ $RANK = 0 ] && kill -USR1 $PPID; exit 0");
  CHECK(ranks.run().code == 0);
}

TEST_CASE("each signal that asks a job to end is handed on", "[distributed]") {
  const auto old = std::signal(SIGHUP, SIG_DFL);  // the tests may run under nohup
  for (const char* const signal : {"HUP", "USR2", "XCPU"}) {
    Ranks ranks(2,
                std::string("trap 'exit 75' ") + signal + "; meet; [ $RANK = 1 ] && kill -" +
                    signal + " $PPID\nwhile :; do sleep 0.01; done");
    const LaunchOutcome outcome = ranks.run();
    CHECK(outcome.code == 75);
    CHECK(outcome.was_asked);
  }
  std::signal(SIGHUP, old);
}

TEST_CASE("ranks of a launcher that ignores SIGHUP ignore it, too", "[distributed]") {
  const auto old = std::signal(SIGHUP, SIG_IGN);
  Ranks ranks(2, "kill -HUP $$; meet; [ $RANK = 0 ] && kill -HUP $PPID; exit 0");
  CHECK(ranks.run().code == 0);
  std::signal(SIGHUP, old);
}

TEST_CASE("a rank that a signal meets before it listens has stopped on request", "[distributed]") {
  Ranks ranks(2, "meet; [ $RANK = 1 ] && kill -INT $PPID; while :; do sleep 0.01; done");
  CHECK(ranks.run().code == 75);
}

TEST_CASE("a second signal ends all ranks, and the launcher by it", "[distributed]") {
  // The first to hear of the first one sends the second.
  const std::string script =
      "trap 'kill -TERM $PPID' TERM; meet; [ $RANK = 1 ] && kill -TERM $PPID\n"
      "while :; do sleep 0.01; done";
  SECTION("a second one") {
    Ranks ranks(2, script);
    ranks.request.times.one_request = milliseconds(0);
    const LaunchOutcome outcome = ranks.run();
    CHECK(outcome.signal == SIGTERM);
    CHECK(ranks.ends.front().signal == SIGKILL);
  }
  SECTION("the same, sent to the process and to its group") {
    Ranks ranks(2,
                "trap 'kill -TERM $PPID; exit 75' TERM; meet; [ $RANK = 1 ] && kill -TERM $PPID\n"
                "while :; do sleep 0.01; done");
    ranks.request.times.one_request = milliseconds(60'000);
    const LaunchOutcome outcome = ranks.run();
    CHECK(outcome.signal == 0);
    CHECK(outcome.code == 75);
  }
}

TEST_CASE("ranks die with a launcher that is killed", "[distributed]") {
  Ranks ranks(2, "echo $$ >pid-$RANK; meet; while :; do sleep 1; done");
  const pid_t launcher = ::fork();
  REQUIRE(launcher >= 0);
  if (launcher == 0) {
    ranks.run();
    ::_exit(0);
  }
  while (!std::filesystem::exists(ranks.folder.path() / "here-0") ||
         !std::filesystem::exists(ranks.folder.path() / "here-1")) {
    std::this_thread::yield();
  }
  ::kill(launcher, SIGKILL);
  REQUIRE(::waitpid(launcher, nullptr, 0) == launcher);
  for (const char* const file : {"pid-0", "pid-1"}) {
    const pid_t pid = std::stoi(ranks.file(file));
    REQUIRE(pid > 0);
    while (is_alive(pid)) {  // until the system has done it; the test's own limit is the bound
      std::this_thread::yield();
    }
  }
}

TEST_CASE("a program that cannot be run is told, and nothing is left", "[distributed]") {
  Ranks ranks(2, "");
  ranks.request.program = "/no/such/program";
  try {
    ranks.run();
    FAIL("it was run");
  } catch (const Error& error) {
    CHECK(error.id() == "distributed.launch_failed");
    CHECK_THAT(error.message(), contains_text("/no/such/program: No such file or directory"));
  }
  CHECK(ranks.ends.empty());
}

TEST_CASE("without file descriptors for all ranks none is started", "[distributed]") {
  Ranks ranks(8, "while :; do sleep 1; done");
  const pid_t launcher = ::fork();
  REQUIRE(launcher >= 0);
  if (launcher == 0) {
    const int next = ::dup(0);
    const rlimit limit{static_cast<rlim_t>(next) + 8, static_cast<rlim_t>(next) + 8};
    ::close(next);
    ::setrlimit(RLIMIT_NOFILE, &limit);
    try {
      ranks.run();
    } catch (const Error& error) {
      const bool is_reported = error.id() == "distributed.launch_failed" &&
                               error.message().find("Too many open files") != std::string::npos;
      // All that were started are gone, and waited for.
      ::_exit(is_reported && ::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD ? 7 : 1);
    }
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(launcher, &status, 0) == launcher);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

TEST_CASE("a rank holds no connection of the launcher", "[distributed]") {
  const StoreServer store;
  Ranks ranks(2, "ls -l /proc/$$/fd >fds-$RANK");
  REQUIRE(ranks.run().code == 0);
  for (const char* const file : {"fds-0", "fds-1"}) {
    CHECK(ranks.file(file).find("->") != std::string::npos);
    CHECK(ranks.file(file).find("socket:") == std::string::npos);
  }
}

TEST_CASE("the store is on the loopback, at a port of its own", "[distributed]") {
  const StoreServer first;
  const StoreServer second;
  CHECK(first.port() != 0);
  CHECK(first.port() != second.port());
}

}  // namespace tenon
