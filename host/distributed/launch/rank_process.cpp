// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/launch/rank_process.hpp"

#include "host/error/error.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <string_view>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tenon {
namespace {

constexpr std::string_view kRank = " rank ";

[[noreturn]] void fail_to_start(const std::string& what, int error) {
  throw Error("distributed.launch_failed",
              "cannot start a rank: " + what + ": " + std::strerror(error) +
                  "; start fewer ranks, or raise ulimit -n and ulimit -u");
}

// A pipe that the rank's program does not inherit.
class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) {
      fail_to_start("pipe", errno);
    }
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int read_end() const { return ends_[0]; }
  int write_end() const { return ends_[1]; }
  void close_write_end() { close_end(1); }
  int take_read_end() {
    const int end = ends_[0];
    ends_[0] = -1;
    return end;
  }

 private:
  void close_end(size_t i) {
    if (ends_[i] >= 0) {
      ::close(ends_[i]);
      ends_[i] = -1;
    }
  }
  std::array<int, 2> ends_ = {-1, -1};
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) {
    result.push_back(text.data());
  }
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> variables_with(const Environment& more) {
  Environment all = environment_variables();
  for (const auto& [name, value] : more) {
    all[name] = value;
  }
  std::vector<std::string> texts;
  for (const auto& [name, value] : all) {
    texts.push_back(std::string(name).append("=").append(value));
  }
  return texts;
}

// All data that the child needs, prepared before the fork: between fork and exec nothing may
// allocate.
struct ChildPlan {
  const char* program;
  char** words;
  char** variables;
  const cpu_set_t* processors;  // null: unchanged
  size_t processors_size;
  int output;      // -1: unchanged
  int crash_page;  // -1: none
  int failure;
  pid_t parent;
  sigset_t signals;  // blocked before the fork
};

[[noreturn]] void become_rank(const ChildPlan& plan) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) {  // the parent ended before the line above
    ::_exit(127);
  }
  // Removes the launcher's handlers: from here on, a signal is for the rank. A request for a
  // checkpoint has no effect until the rank handles it.
  for (const int signal : {SIGTERM, SIGINT, SIGUSR2, SIGXCPU, SIGCHLD}) {
    ::signal(signal, SIG_DFL);
  }
  ::signal(SIGUSR1, SIG_IGN);
  struct sigaction hang_up {};
  if (::sigaction(SIGHUP, nullptr, &hang_up) == 0 && hang_up.sa_handler != SIG_IGN) {  // nohup
    ::signal(SIGHUP, SIG_DFL);
  }
  if (plan.processors != nullptr) {
    // Errors are ignored: a processor that went offline meanwhile must not prevent training.
    ::sched_setaffinity(0, plan.processors_size, plan.processors);
  }
  if (plan.output >= 0) {
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(plan.output, STDOUT_FILENO);
    ::dup2(plan.output, STDERR_FILENO);
  }
  if (plan.crash_page >= 0) {
    ::fcntl(plan.crash_page, F_SETFD, 0);  // stays open in the program
  }
  ::sigprocmask(SIG_SETMASK, &plan.signals, nullptr);
  ::execve(plan.program, plan.words, plan.variables);
  const int error = errno;
  [[maybe_unused]] const ssize_t told = ::write(plan.failure, &error, sizeof(error));
  ::_exit(127);
}

// A set of processors, for the system call.
struct ProcessorSet {
  std::vector<cpu_set_t> sets;

  explicit ProcessorSet(const Processors& processors) {
    if (processors.empty()) {
      return;
    }
    sets.resize(static_cast<size_t>(processors.back()) / CPU_SETSIZE + 1);
    std::memset(sets.data(), 0, size());
    for (const int processor : processors) {
      CPU_SET_S(static_cast<size_t>(processor), size(), sets.data());
    }
  }
  size_t size() const { return sets.size() * sizeof(cpu_set_t); }
};

}  // namespace

RankProcess start_rank(const RankStart& start) {
  std::vector<std::string> words = start.words;
  std::vector<std::string> variables = variables_with(start.variables);
  std::vector<char*> word_pointers = pointers(words);
  std::vector<char*> variable_pointers = pointers(variables);
  const ProcessorSet processors(start.processors);
  Pipe output;
  Pipe failure;
  ChildPlan plan{};
  plan.program = start.program.c_str();
  plan.words = word_pointers.data();
  plan.variables = variable_pointers.data();
  plan.processors = processors.sets.empty() ? nullptr : processors.sets.data();
  plan.processors_size = processors.size();
  plan.output = start.terminal == RankTerminal::kPipe ? output.write_end() : -1;
  plan.crash_page = start.crash_page;
  plan.failure = failure.write_end();
  plan.parent = ::getpid();
  // A signal that arrives between fork and exec stays pending until the program runs.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &plan.signals);
  const pid_t pid = ::fork();
  const int fork_error = errno;
  if (pid == 0) {
    become_rank(plan);
  }
  ::pthread_sigmask(SIG_SETMASK, &plan.signals, nullptr);
  if (pid < 0) {
    fail_to_start("fork", fork_error);
  }
  failure.close_write_end();
  int error = 0;
  ssize_t count = 0;
  do {
    count = ::read(failure.read_end(), &error, sizeof(error));
  } while (count < 0 && errno == EINTR);
  if (count > 0) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    fail_to_start(start.program, error);
  }
  RankProcess rank{.pid = pid};
  if (start.terminal == RankTerminal::kPipe) {
    rank.output = output.take_read_end();
    ::fcntl(rank.output, F_SETFL, O_NONBLOCK);
  }
  return rank;
}

std::string rank_title(const std::string& program, uint32_t rank) {
  return std::string(program).append(kRank).append(std::to_string(rank));
}

std::string without_rank_title(const std::string& name) {
  const size_t end = name.find_last_not_of("0123456789") + 1;  // npos + 1 is 0
  const std::string_view before = std::string_view(name).substr(0, end);
  return end < name.size() && before.ends_with(kRank) ? name.substr(0, end - kRank.size()) : name;
}

void show_rank(const std::string& program, const RankEnvironment& environment) {
  if (environment.world_size > 1) {
    // The kernel would show "exe", after the file that the launcher runs.
    ::prctl(PR_SET_NAME, rank_title(program, environment.rank).c_str());
  }
}

void die_with_agent(const RankEnvironment& environment) {
  if (environment.launcher == "torchrun") {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  }
}

}  // namespace tenon
