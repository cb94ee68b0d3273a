// SPDX-License-Identifier: Apache-2.0
#include "host/process/signal_watch.hpp"

#include "host/log/log.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <iterator>
#include <sched.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

using std::chrono::milliseconds;

constexpr int kGoesOn = 7;

// How a process ends, as wait() tells it. Does not return in the process.
int status_of(const std::function<void()>& process) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGHUP, SIG_DFL);  // the tests may run under nohup
    process();
    ::_exit(kGoesOn);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

// How a process ends that gets two signals, the second `later` than one event or not.
int status_after_two(SignalWatch::Second second,
                     milliseconds one_event,
                     int first = SIGTERM,
                     int last = SIGINT) {
  return status_of([=] {
    const SignalWatch signals(second, {.one_event = one_event, .to_stop = std::chrono::hours(1)});
    std::raise(first);
    const int received = signals.received();
    std::raise(last);
    if (received != first || signals.received() != first) {
      ::_exit(1);
    }
  });
}

void check_goes_on(int status) {
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == kGoesOn);
}

}  // namespace

TEST_CASE("a later second signal ends the process by it", "[train]") {
  const int status = status_after_two(SignalWatch::Second::kEnds, milliseconds(0));
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGINT);
}

// timeout(1), npm, terminals and launchers send two signals at once.
TEST_CASE("two signals of one event are one request", "[train]") {
  for (const int first : {SIGTERM, SIGINT, SIGHUP}) {
    for (const int second : {SIGTERM, SIGINT}) {
      check_goes_on(
          status_after_two(SignalWatch::Second::kEnds, std::chrono::minutes(10), first, second));
    }
  }
}

TEST_CASE("a rank of --launch leaves a second signal to the launcher", "[train]") {
  check_goes_on(status_after_two(SignalWatch::Second::kIgnored, milliseconds(0)));
}

TEST_CASE("each signal that asks a job to end is a request to stop", "[train]") {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR2, SIGXCPU}) {
    check_goes_on(status_of([signal] {
      const SignalWatch signals;
      std::raise(signal);
      ::_exit(signals.received() == signal ? kGoesOn : 1);
    }));
  }
  CHECK(SignalWatch::name(SIGXCPU) == "SIGXCPU");
}

TEST_CASE("the kernel may repeat SIGXCPU as often as it likes", "[train]") {
  check_goes_on(status_after_two(SignalWatch::Second::kEnds, milliseconds(0), SIGXCPU, SIGXCPU));
}

TEST_CASE("a second signal of the event does not end a run that is about to end", "[train]") {
  check_goes_on(status_of([] {
    {
      const SignalWatch signals(SignalWatch::Second::kEnds, {.one_event = std::chrono::hours(1)});
      std::raise(SIGTERM);
      signals.received();
    }
    std::raise(SIGTERM);
  }));
}

TEST_CASE("a run that ignores SIGHUP keeps ignoring it", "[train]") {
  check_goes_on(status_of([] {
    std::signal(SIGHUP, SIG_IGN);
    const SignalWatch signals;
    std::raise(SIGHUP);
    ::_exit(signals.received() == 0 ? kGoesOn : 1);
  }));
}

TEST_CASE("a run in a blocking call before its first step is ended, and says so in the log",
          "[train]") {
  const ScratchFolder folder;
  const std::string log = (folder.path() / "log.txt").string();
  const int status = status_of([&log] {
    set_up_log({.terminal = false, .file = log});
    const SignalWatch signals(SignalWatch::Second::kEnds, {.to_stop = milliseconds(0)});
    signals.watch({.activity = [] { return std::string("in dataset \"chat\": open for 45 s"); },
                   .end_start =
                       [](const std::string& reason) {
                         log_info("ended: " + reason);
                         ::_exit(75);
                       }});
    ::kill(::getpid(), SIGTERM);
    for (;;) {
      ::pause();  // a call that does not return
    }
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 75);
  std::ifstream in(log);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  CHECK_THAT(text,
             contains_text("received SIGTERM: the run stops before its first step; now in dataset "
                           "\"chat\": open for 45 s"));
  CHECK_THAT(text, contains_text("ended: received SIGTERM"));
}

TEST_CASE("a run that trains is not ended, and says what it waits for", "[train]") {
  const ScratchFolder folder;
  const std::string log = (folder.path() / "log.txt").string();
  const int status = status_of([&log] {
    set_up_log({.terminal = false, .file = log});
    const SignalWatch signals(SignalWatch::Second::kEnds,
                              {.to_stop = milliseconds(0), .reminder = milliseconds(1)});
    signals.begin_training();
    static std::atomic<int> num_asked = 0;
    signals.watch({.activity =
                       [] {
                         ++num_asked;
                         return std::string("in step 3");
                       },
                   .end_start = [](const std::string&) { ::_exit(1); }});
    ::kill(::getpid(), SIGINT);
    while (num_asked < 3) {
      std::this_thread::yield();
    }
    signals.watch({});
  });
  check_goes_on(status);
  std::ifstream in(log);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  CHECK_THAT(text,
             contains_text("received SIGINT: the run stops after the running step and one save; "
                           "now in step 3"));
  CHECK_THAT(text, contains_text("still stopping after SIGINT; waiting in step 3"));
}

// The first process of a container is not ended by a signal without a handler.
TEST_CASE("a later second signal ends the first process of a container too", "[train]") {
  const int status = status_of([] {
    if (::unshare(CLONE_NEWPID) != 0) {
      ::_exit(2);
    }
    const int in_container = [] {
      const pid_t first = ::fork();
      if (first == 0) {
        const SignalWatch signals(SignalWatch::Second::kEnds, {.one_event = milliseconds(0)});
        std::raise(SIGINT);
        signals.received();
        std::raise(SIGINT);
        signals.received();
        ::_exit(::getpid() == 1 ? 1 : 3);
      }
      int ended = 0;
      ::waitpid(first, &ended, 0);
      return WIFEXITED(ended) ? WEXITSTATUS(ended) : 4;
    }();
    ::_exit(in_container);
  });
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) {
    TENON_SKIP("needs permission to make a process namespace");
  }
  CHECK(WEXITSTATUS(status) == 128 + SIGINT);
}

}  // namespace tenon
