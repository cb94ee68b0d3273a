// SPDX-License-Identifier: Apache-2.0
#include "host/process/process.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

constexpr int kStillThere = 7;

// How a process ends, as wait() reports it. Does not return in the process.
int end_of(const std::function<void()>& process) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit no_core{};
    ::setrlimit(RLIMIT_CORE, &no_core);
    // Handlers of the test framework are not those of a program.
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGINT, SIGHUP}) {
      std::signal(signal, SIG_DFL);
    }
    process();
    ::_exit(kStillThere);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

int code_of(int status) {
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

// The handlers of all signals.
std::array<struct sigaction, 65> handlers() {
  std::array<struct sigaction, 65> all{};
  for (int signal = 1; signal < 65; ++signal) {
    ::sigaction(signal, nullptr, &all[static_cast<size_t>(signal)]);
  }
  return all;
}

bool is_same(const struct sigaction& a, const struct sigaction& b) {
  constexpr int kRestorer = 0x04000000;  // set by the C library with each action
  return (a.sa_flags | kRestorer) == (b.sa_flags | kRestorer) && a.sa_handler == b.sa_handler;
}

bool are_same(const std::array<struct sigaction, 65>& a,
              const std::array<struct sigaction, 65>& b) {
  for (size_t signal = 1; signal < a.size(); ++signal) {
    if (!is_same(a[signal], b[signal])) {
      return false;
    }
  }
  return true;
}

void on_own_signal(int) {}

std::string printed_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

void print_to(const std::filesystem::path& file) {
  const int out = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
}

}  // namespace

TEST_CASE("a process restores the signal handlers of the program around it", "[process]") {
  const int status = end_of([] {
    std::signal(SIGUSR1, &on_own_signal);
    std::signal(SIGTERM, &on_own_signal);
    std::signal(SIGALRM, &on_own_signal);
    std::signal(SIGSEGV, &on_own_signal);
    const auto before = handlers();
    bool has_changed = false;
    {
      Process process;
      has_changed = !are_same(handlers(), before);
      const auto signals = process.watch_signals(SignalWatch::Second::kEnds);
      std::raise(SIGTERM);  // handlers stay after a first signal
      has_changed = has_changed && signals->received() == SIGTERM;
      process.end_after_grace("never printed", 1, 1000);
    }
    ::_exit(has_changed && are_same(handlers(), before) && ::alarm(0) == 0 ? kStillThere : 1);
  });
  CHECK(code_of(status) == kStillThere);
}

TEST_CASE("after a process object, exit() is no mistake and a crash is not reported", "[process]") {
  const ScratchFolder folder;
  const auto file = folder.path() / "printed.txt";
  CHECK(code_of(end_of([&] {
          print_to(file);
          {
            Process process;
            process.report_crashes_of(0, 1);
          }
          std::exit(3);
        })) == 3);
  CHECK_THAT(printed_in(file), !contains_text("plugin.exited"));
  const int crash = end_of([&] {
    print_to(file);
    { const Process process; }
    std::raise(SIGSEGV);
  });
  CHECK(WIFSIGNALED(crash));
  CHECK(printed_in(file).empty());
}

TEST_CASE("a process reports exit() and a crash while its object exists", "[process]") {
  const ScratchFolder folder;
  const auto file = folder.path() / "printed.txt";
  CHECK(code_of(end_of([&] {
          print_to(file);
          const Process process;
          std::exit(0);
        })) != 0);
  CHECK_THAT(printed_in(file), contains_text("[plugin.exited] a library called exit()"));
  CHECK(code_of(end_of([&] {
          print_to(file);
          Process process;
          process.report_crashes_of(3, 4);
          std::raise(SIGSEGV);
        })) == 5);
  CHECK_THAT(printed_in(file), contains_text("SIGSEGV, before the first step of rank 3"));
}

TEST_CASE("a second process object reports as the first one did", "[process]") {
  const ScratchFolder folder;
  const auto file = folder.path() / "printed.txt";
  CHECK(code_of(end_of([&] {
          print_to(file);
          { const Process first; }
          const Process second;
          std::raise(SIGSEGV);
        })) == 5);
  CHECK_THAT(printed_in(file), contains_text("[run.crashed]"));
}

TEST_CASE("a process has one object", "[process]") {
  const int status = end_of([] {
    const ScratchFolder folder;
    print_to(folder.path() / "printed.txt");
    const Process process;
    const Process another;
  });
  CHECK(WIFEXITED(status));  // SIGABRT is reported as a crash
  CHECK(WEXITSTATUS(status) == 5);
}

TEST_CASE("each way to end a process gives its status", "[process]") {
  const ScratchFolder folder;
  const auto file = folder.path() / "printed.txt";
  CHECK(code_of(end_of([&] {
          print_to(file);
          Process process;
          std::printf("printed");
          process.end(9);
        })) == 9);
  CHECK(printed_in(file) == "printed");
  CHECK(code_of(end_of([&] {
          print_to(file);
          Process process;
          std::printf("lost with the buffer");
          process.end_at_once(8);
        })) == 8);
  CHECK(printed_in(file).empty());
  const int by_signal = end_of([] {
    Process process;
    process.end_by_signal(SIGINT);
  });
  REQUIRE(WIFSIGNALED(by_signal));
  CHECK(WTERMSIG(by_signal) == SIGINT);
  CHECK(code_of(end_of([&] {
          print_to(file);
          Process process;
          process.end_after_grace("the end hangs", 6, 1);
          for (;;) {
            ::pause();
          }
        })) == 6);
  CHECK(printed_in(file) == "the end hangs\n");
}

TEST_CASE("a write to a closed pipe is an error, and SIGUSR1 ends nothing", "[process]") {
  CHECK(code_of(end_of([] {
          const Process process;
          std::array<int, 2> ends{};
          if (::pipe(ends.data()) != 0) {
            ::_exit(1);
          }
          ::close(ends[0]);
          std::raise(SIGUSR1);
          ::_exit(::write(ends[1], "x", 1) == -1 && errno == EPIPE ? kStillThere : 2);
        })) == kStillThere);
}

TEST_CASE("closed standard streams are opened, so that no file takes their number", "[process]") {
  CHECK(code_of(end_of([] {
          ::close(STDOUT_FILENO);
          const Process process;
          const int file = ::open("/dev/null", O_RDONLY);
          ::_exit(file > STDERR_FILENO && ::write(STDOUT_FILENO, "x", 1) < 0 ? kStillThere : 1);
        })) == kStillThere);
}

TEST_CASE("a witness exists from its start to its end", "[process]") {
  CHECK(code_of(end_of([] {
          Process process;
          if (process.witness() != nullptr) {
            ::_exit(1);
          }
          process.start_witness();
          if (process.witness() == nullptr) {
            ::_exit(2);
          }
          process.end_witness();
          ::_exit(process.witness() == nullptr ? kStillThere : 3);
        })) == kStillThere);
}

}  // namespace tenon
