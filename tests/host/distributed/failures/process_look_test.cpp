// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/failures/process_look.hpp"

#include <csignal>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// Another process, which tells its name and then waits for its end.
class Other {
 public:
  Other() {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::alarm(60);
      const uint64_t started = own_process().started;
      [[maybe_unused]] const ssize_t told = ::write(ends[1], &started, sizeof(started));
      for (;;) {
        ::pause();
      }
    }
    name_ = own_process();
    name_.pid = pid_;
    REQUIRE(::read(ends[0], &name_.started, sizeof(name_.started)) == sizeof(name_.started));
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~Other() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;

  const ProcessName& name() const { return name_; }

 private:
  pid_t pid_ = -1;
  ProcessName name_;
};

}  // namespace

TEST_CASE("a process is there, stopped, or has ended", "[distributed][failures]") {
  CHECK(look_at(own_process()) == ProcessState::kThere);
  const Other other;
  const auto pid = static_cast<pid_t>(other.name().pid);
  CHECK(look_at(other.name()) == ProcessState::kThere);
  siginfo_t info{};
  ::kill(pid, SIGSTOP);
  REQUIRE(::waitid(P_PID, other.name().pid, &info, WSTOPPED) == 0);
  CHECK(look_at(other.name()) == ProcessState::kStopped);
  ::kill(pid, SIGCONT);
  REQUIRE(::waitid(P_PID, other.name().pid, &info, WCONTINUED) == 0);
  CHECK(look_at(other.name()) == ProcessState::kThere);
  ::kill(pid, SIGKILL);
  REQUIRE(::waitid(P_PID, other.name().pid, &info, WEXITED | WNOWAIT) == 0);
  CHECK(look_at(other.name()) == ProcessState::kGone);  // though nobody has asked for its status
  REQUIRE(::waitpid(pid, nullptr, 0) == pid);
  CHECK(look_at(other.name()) == ProcessState::kGone);
}

TEST_CASE("a process of elsewhere, or one with the same number, is not taken for it",
          "[distributed][failures]") {
  ProcessName elsewhere = own_process();
  elsewhere.space += "x";
  CHECK(look_at(elsewhere) == ProcessState::kUnknown);
  CHECK(look_at({}) == ProcessState::kUnknown);
  ProcessName earlier = own_process();
  earlier.started -= 1;
  CHECK(look_at(earlier) == ProcessState::kGone);
  CHECK(std::string(silence_text(ProcessState::kUnknown)) ==
        "it has exited, is stopped or is disconnected");
}

}  // namespace tenon
