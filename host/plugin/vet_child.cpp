// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/vet_child.hpp"

#include "host/log/log.hpp"
#include "host/plugin/plugin_loader.hpp"
#include "host/plugin/vet_answer.hpp"
#include "host/plugin/vet_components.hpp"

#include <algorithm>
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

// The frames of the handler and of the kernel's call to it.
constexpr int kOwnFrames = 2;

// Prints the frames and raises the signal again, whose default action ends the process. A signal
// that the plugin raised itself would not occur again. Allocates no memory.
void on_child_crash(int signal) {
  std::array<void*, kMaxChildFrames> frames;
  const int num_frames = backtrace(frames.data(), kMaxChildFrames);
  if (write(STDERR_FILENO, kBacktraceMark.data(), kBacktraceMark.size()) > 0 &&
      num_frames > kOwnFrames) {
    backtrace_symbols_fd(frames.data() + kOwnFrames, num_frames - kOwnFrames, STDERR_FILENO);
  }
  ::raise(signal);
}

void catch_crashes() {
  // The first call loads the unwinder, which is unsafe in a signal handler.
  std::array<void*, 1> frame;
  backtrace(frame.data(), 1);

  // After a stack overflow, the handler needs a separate stack.
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
  // If the host is killed, a hung child must not survive it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) {
    _exit(1);
  }
  setpgid(0, 0);  // so that processes started by a plugin can be killed with it
  for (int signal = 1; signal < NSIG; ++signal) {
    std::signal(signal, SIG_DFL);  // fails for signals whose action cannot change
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
  // Unbuffered, so that a crash loses no output of the plugin.
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  std::setvbuf(stderr, nullptr, _IONBF, 0);
  // Only the parent writes the run's log file; log lines of this process go to `output`.
  set_up_log({.level = LogLevel::kDebug});
  catch_crashes();
}

void set(VetNote& note, std::string_view call) {
  const std::size_t size = std::min(call.size(), note.size() - 1);
  std::memcpy(note.data(), call.data(), size);
  note[size] = '\0';
}

std::string vet(const PluginInfo& plugin, const ServiceTable& services, VetNote& note) {
  Verdict answer;
  try {
    set(note, "");
    const LoadedPlugin& loaded = load_plugin(plugin, services);
    answer.hash = loaded.hash;
    vet_components(loaded, [&](std::string_view call) { set(note, call); });
  } catch (const Error& error) {
    answer.id = error.id();
    answer.message = error.message().substr(0, kMaxAnswerBytes / 8);  // escaping makes it longer
  } catch (...) {
    std::terminate();  // with the exception active, so that the output names it
  }
  return vet_answer_text(answer);
}

}  // namespace

void run_vet_child(int socket,
                   int output,
                   int parent,
                   std::span<const PluginInfo* const> plugins,
                   const ServiceTable& services,
                   VetNote& note) noexcept {
  isolate(output, parent);
  while (true) {
    uint32_t index = 0;
    const ssize_t n = recv(socket, &index, sizeof(index), 0);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n != static_cast<ssize_t>(sizeof(index)) || index >= plugins.size()) {
      _exit(0);  // the parent has closed its end; run no static destructors
    }
    const std::string answer = vet(*plugins[index], services, note);
    if (send(socket, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) {
      _exit(1);
    }
  }
}

}  // namespace tenon
