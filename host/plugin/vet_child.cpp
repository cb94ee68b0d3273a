// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/vet_child.hpp"

#include "host/log/log.hpp"
#include "host/plugin/plugin_loader.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <execinfo.h>
#include <fcntl.h>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tenon {
namespace {

constexpr int kMaxChildFrames = 32;
constexpr std::array kChildSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP};

// Of the handler's frames, and that of the kernel's call of it.
constexpr int kOwnFrames = 2;

// Prints the frames and returns: the signal is then raised again, and its default action ends the
// process. Nothing here allocates.
void on_child_crash(int) {
  std::array<void*, kMaxChildFrames> frames;
  const int num_frames = backtrace(frames.data(), kMaxChildFrames);
  if (write(STDERR_FILENO, kBacktraceMark.data(), kBacktraceMark.size()) > 0 &&
      num_frames > kOwnFrames) {
    backtrace_symbols_fd(frames.data() + kOwnFrames, num_frames - kOwnFrames, STDERR_FILENO);
  }
}

void catch_crashes() {
  // The first call loads the unwinder, which a crashing process must not.
  std::array<void*, 1> frame;
  backtrace(frame.data(), 1);

  // A stack overflow leaves the handler no stack but this one.
  static std::array<char, 1 << 16> stack;
  stack_t alternative{};
  alternative.ss_sp = stack.data();
  alternative.ss_size = stack.size();
  sigaltstack(&alternative, nullptr);
  struct sigaction action {};
  action.sa_handler = on_child_crash;
  action.sa_flags = static_cast<int>(SA_ONSTACK | SA_RESETHAND);
  for (const int signal : kChildSignals) {
    sigaction(signal, &action, nullptr);
  }
}

void isolate(int output, int parent) {
  // A host that is killed must not leave a hung child behind.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) {
    _exit(1);
  }
  setpgid(0, 0);  // so that whatever a plugin starts can be ended with it
  for (int signal = 1; signal < NSIG; ++signal) {
    std::signal(signal, SIG_DFL);  // fails for those that have no other action
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);

  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  // What a plugin printed must not be lost in a buffer when it crashes.
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  std::setvbuf(stderr, nullptr, _IONBF, 0);
  // The run's log file is the parent's; lines of this process go to `output`.
  set_up_log({.level = LogLevel::kDebug});
  catch_crashes();
}

std::string vet(const PluginInfo& plugin, const ServiceTable& services) {
  nlohmann::json answer = {{"id", ""}, {"message", ""}};
  try {
    load_plugin(plugin, services);
  } catch (const Error& error) {
    answer["id"] = error.id();
    answer["message"] = error.message().substr(0, kMaxAnswerBytes / 8);  // escapes make it longer
  } catch (...) {
    std::terminate();  // with the exception active, so that the crash names it
  }
  // What a plugin put into its message need not be UTF-8.
  return answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void run_vet_child(int socket,
                   int output,
                   int parent,
                   std::span<const PluginInfo* const> plugins,
                   const ServiceTable& services) noexcept {
  isolate(output, parent);
  while (true) {
    uint32_t index = 0;
    const ssize_t n = recv(socket, &index, sizeof(index), 0);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n != static_cast<ssize_t>(sizeof(index)) || index >= plugins.size()) {
      _exit(0);  // the parent has closed its end: all is done. Nothing static is destroyed
    }
    const std::string answer = vet(*plugins[index], services);
    if (send(socket, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) {
      _exit(1);
    }
  }
}

}  // namespace tenon
