// SPDX-License-Identifier: Apache-2.0
#include "host/metrics/progress.hpp"

#include "host/log/log.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// What a process prints whose standard output and error are one terminal.
std::string on_terminal(const std::function<void()>& print) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(master >= 0);
  REQUIRE(::grantpt(master) == 0);
  REQUIRE(::unlockpt(master) == 0);
  const int slave = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
  REQUIRE(slave >= 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(slave, STDOUT_FILENO);
    ::dup2(slave, STDERR_FILENO);
    print();
    ::_exit(0);
  }
  ::close(slave);
  std::string text;
  char block[4096];
  for (ssize_t n = 0; (n = ::read(master, block, sizeof block)) > 0;) {
    text.append(block, static_cast<size_t>(n));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(master);
  CHECK(status == 0);
  return text;
}

}  // namespace

TEST_CASE("durations and numbers read as people write them", "[metrics]") {
  CHECK(duration_text(0.2) == "0 s");
  CHECK(duration_text(59.4) == "59 s");
  CHECK(duration_text(200) == "3 min 20 s");
  CHECK(duration_text(7500) == "2 h 05 min");
  CHECK(grouped_digits(0) == "0");
  CHECK(grouped_digits(999) == "999");
  CHECK(grouped_digits(869504) == "869,504");
  CHECK(grouped_digits(-1234567) == "-1,234,567");
}

TEST_CASE("a progress line tells step, loss, rate, speed and what is left", "[metrics]") {
  ProgressState state;
  state.step = 100;
  state.total_steps = 300;
  state.loss = 2.05;
  state.lr = 0.002;
  state.grad_norm = 0.7;
  state.tokens_per_second = 20480;
  state.seconds = 10;
  CHECK(progress_text(state) ==
        "step 100/300  loss 2.0500  lr 0.002  grad norm 0.700  20,480 tokens/s  20 s left");
  state.total_steps.reset();
  state.grad_norm.reset();
  state.non_finite_steps = 2;
  CHECK(progress_text(state) ==
        "step 100  loss 2.0500  lr 0.002  20,480 tokens/s  2 non-finite  10 s");
  state.non_finite_steps = 0;
  state.tokens_per_second = 0;
  state.samples_per_second = 160;
  CHECK(progress_text(state) == "step 100  loss 2.0500  lr 0.002  160 samples/s  10 s");
  state.window = "a\x1b[2J\n.csv";
  CHECK(progress_text(state) ==
        "step 100  window a\\x1b[2J\\x0a.csv  loss 2.0500  lr 0.002  160 samples/s  10 s");
}

TEST_CASE("a message on the terminal takes the place of the status line", "[metrics]") {
  ::setenv("NO_COLOR", "1", 1);
  const std::string text = on_terminal([] {
    set_up_log({});
    Progress progress(Progress::Style::kAuto);
    ProgressState state;
    state.step = 1;
    progress.show(state);
    log_warning("first");
    log_warning("second");
    state.step = 2;
    progress.show(state);
    progress.say("done");
  });
  INFO(text);
  const auto after = [&](const std::string& part) { return text.substr(text.find(part)); };
  CHECK(text.starts_with("\rstep 1  "));
  CHECK_THAT(text, contains_text("\x1b[K\r\x1b[Kwarning: first\r\nwarning: second\r\n\rstep 2  "));
  CHECK_THAT(after("step 2"), contains_text("\x1b[K\r\ndone\r\n"));
}

}  // namespace tenon
