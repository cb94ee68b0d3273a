// SPDX-License-Identifier: Apache-2.0
#include "host/error/assert.hpp"

#include <csignal>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

struct Ending {
  int signal;
  std::string err;
};

// Runs `body` in a child process, and says how it ended and what it wrote to stderr.
template <typename Body>
Ending run_in_child(Body body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit no_core = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)signal(SIGABRT, SIG_DFL);  // the test framework has a handler of its own
    (void)dup2(ends[1], STDERR_FILENO);
    body();
    _exit(0);
  }
  close(ends[1]);
  Ending ending{0, ""};
  char buffer[1024];
  for (ssize_t count = 1; count > 0;) {
    count = read(ends[0], buffer, sizeof buffer);
    ending.err.append(buffer, count > 0 ? static_cast<std::size_t>(count) : 0);
  }
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  ending.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return ending;
}

}  // namespace

TEST_CASE("an assertion that holds does nothing", "[error]") {
  int num_evaluated = 0;
  TENON_ASSERT(++num_evaluated == 1, "evaluated once, in every build");
  CHECK(num_evaluated == 1);
}

TEST_CASE("an assertion that fails names file, line and condition, and aborts", "[error]") {
  const Ending ending = run_in_child([] { TENON_ASSERT(1 == 2, "numbers are sane"); });
  CHECK(ending.signal == SIGABRT);
  CHECK_THAT(ending.err, contains_text("assert_test.cpp:"));
  CHECK_THAT(ending.err, contains_text("assertion failed: 1 == 2: numbers are sane"));
}

}  // namespace tenon
