// SPDX-License-Identifier: Apache-2.0
//
// Of crashes that no call of a plugin explains: tests/faults has the others.
#include "host/process/crash_report.hpp"

#include <tenon/hook.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// What a process prints that is at this step and event when it aborts.
std::string report_of(uint64_t step, uint32_t event, int& status) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    std::signal(SIGABRT, SIG_DFL);  // that of the test program
    const rlimit no_core{};
    ::setrlimit(RLIMIT_CORE, &no_core);
    report_crashes();
    crash_page().step = step;
    crash_page().event = event + 1;
    std::abort();
  }
  ::close(ends[1]);
  std::string text;
  char buffer[256];
  for (ssize_t count = 0; (count = ::read(ends[0], buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<size_t>(count));
  }
  ::close(ends[0]);
  ::waitpid(child, &status, 0);
  return text;
}

}  // namespace

TEST_CASE("a crash outside of a plugin's call is reported with step and event", "[plugin]") {
  int status = 0;
  CHECK_THAT(report_of(7, TENON_EVENT_AFTER_BACKWARD, status),
             contains_text("[run.crashed] the process crashed outside of a plugin's call with "
                           "SIGABRT, in step 7, at after_backward"));
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 5);
  CHECK_THAT(report_of(0, TENON_EVENT_BEFORE_INIT, status),
             contains_text("SIGABRT, before the first step, at before_init"));
  CHECK_THAT(report_of(7, TENON_NUM_EVENTS, status), !contains_text("at "));
}

}  // namespace tenon
