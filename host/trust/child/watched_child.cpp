// SPDX-License-Identifier: Apache-2.0
#include "host/trust/child/watched_child.hpp"

#include "host/error/resource_failure.hpp"
#include "host/text/formatted.hpp"
#include "host/trust/child/child_output.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <execinfo.h>
#include <fcntl.h>
#include <new>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;

// Only the end of a plugin's output is kept, because it explains a crash.
constexpr std::size_t kMaxOutput = 16384;
constexpr int kMaxReads = 64;  // reads of 4 KiB; four times the capacity of a pipe

// How often to check if a silent child is still running. A process started by the plugin may keep
// the socket open after the child has ended.
constexpr std::chrono::milliseconds kLookAgain{100};

[[noreturn]] void fail_fork(const char* call) {
  const int error = errno;
  throw resource_failure(formatted("cannot check plugins in a child process: {}", call), error);
}

constexpr int kMaxChildFrames = 32;
constexpr std::array kChildSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP};

// The frames of the handler and of the kernel's call to it.
constexpr int kOwnFrames = 2;

// Prints the frames and raises the signal again, whose default action ends the process. A signal
// that the plugin raised itself would not occur again. Allocates no memory.
void on_child_crash(int signal) {
  std::array<void*, kMaxChildFrames> frames;
  const int num_frames = backtrace(frames.data(), kMaxChildFrames);
  if (::write(STDERR_FILENO, kBacktraceMark.data(), kBacktraceMark.size()) > 0 &&
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

void isolate(int output, int parent, LogLevel level) {
  // If the parent is killed, a hung child must not survive it.
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
  set_up_log({.level = level});
  catch_crashes();
}

// Turns a process that `parent` has just forked into a child. `output` becomes stdout and stderr.
[[noreturn]] void run_child(int socket,
                            int output,
                            int parent,
                            const WatchedChild::Serve& serve,
                            LogLevel level,
                            ChildNote& note) noexcept {
  isolate(output, parent, level);
  serve(socket, note);
  _exit(0);  // the parent has closed its end; run no static destructors
}

}  // namespace

void set_note(ChildNote& note, std::string_view call) {
  const std::size_t size = std::min(call.size(), note.size() - 1);
  std::memcpy(note.data(), call.data(), size);
  note[size] = '\0';
}

Descriptor::Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

void Descriptor::close() {
  if (fd_ >= 0) {
    ::close(std::exchange(fd_, -1));
  }
}

WatchedChild::WatchedChild(const Serve& serve, LogLevel level) {
  std::array<int, 2> sockets{};
  std::array<int, 2> pipe{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    fail_fork("socketpair");
  }
  socket_.emplace(sockets[0]);
  const Descriptor child_socket(sockets[1]);
  if (pipe2(pipe.data(), O_CLOEXEC) != 0) {
    fail_fork("pipe2");
  }
  output_.emplace(pipe[0]);
  const Descriptor child_output(pipe[1]);
  if (fcntl(output_->get(), F_SETFL, O_NONBLOCK) != 0) {
    fail_fork("fcntl");
  }
  void* const shared =
      ::mmap(nullptr, sizeof(ChildNote), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    fail_fork("mmap");
  }
  note_ = new (shared) ChildNote{};
  // Otherwise both processes would write the buffered output.
  flush_log();
  std::fflush(nullptr);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) {
    fail_fork("fork");
  }
  if (pid_ == 0) {
    socket_->close();
    output_->close();
    run_child(child_socket.get(), child_output.get(), parent, serve, level, *note_);
  }
}

WatchedChild::~WatchedChild() {
  if (pid_ > 0) {
    socket_->close();  // the child then exits
    reap(Clock::now() + std::chrono::seconds(1));
  }
  ::munmap(note_, sizeof(ChildNote));
}

std::optional<std::string> WatchedChild::ask(std::string_view request,
                                             std::chrono::milliseconds timeout) {
  drain();
  text_.clear();
  const Clock::time_point deadline = Clock::now() + timeout;
  if (send(socket_->get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) {
    reap(deadline);
    return std::nullopt;
  }
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) {
      end_by_force();
      return std::nullopt;
    }
    std::array<pollfd, 2> polled = {pollfd{socket_->get(), POLLIN, 0},
                                    pollfd{output_->get(), POLLIN, 0}};
    if (poll(polled.data(), polled.size(), static_cast<int>(std::min(left, kLookAgain).count())) <
            0 &&
        errno != EINTR) {
      fail_fork("poll");
    }
    drain();
    if (polled[0].revents != 0) {
      if (std::optional<std::string> answer = receive()) {
        return answer;
      }
      reap(deadline);
      return std::nullopt;
    }
    if (has_ended()) {
      return std::nullopt;
    }
  }
}

std::string WatchedChild::call() const {
  const ChildNote note = *note_;
  return {note.data(), ::strnlen(note.data(), note.size())};
}

std::optional<std::string> WatchedChild::receive() {
  std::string packet(kMaxAnswerBytes, '\0');
  while (true) {
    const ssize_t n = recv(socket_->get(), packet.data(), packet.size(), 0);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return std::nullopt;
    }
    packet.resize(static_cast<std::size_t>(n));
    return packet;
  }
}

// Collects the output so far, without waiting. The amount is limited, because a child may print
// endlessly.
void WatchedChild::drain() {
  std::array<char, 4096> buffer;
  for (int i = 0; i < kMaxReads; ++i) {
    const ssize_t n = read(output_->get(), buffer.data(), buffer.size());
    if (n <= 0) {
      return;
    }
    text_.append(buffer.data(), static_cast<std::size_t>(n));
    if (text_.size() > 2 * kMaxOutput) {
      text_.erase(0, text_.size() - kMaxOutput);
    }
  }
}

bool WatchedChild::has_ended() {
  siginfo_t info{};
  const int looked = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  if (looked == 0 && info.si_pid == 0) {
    return false;
  }
  collect();
  return true;
}

// Waits until the child ends, and kills it at the deadline.
void WatchedChild::reap(Clock::time_point deadline) {
  while (!has_ended()) {
    if (Clock::now() >= deadline) {
      end_by_force();
      return;
    }
    poll(nullptr, 0, 1);
  }
}

void WatchedChild::end_by_force() {
  death_.is_hung = true;
  kill(pid_, SIGKILL);  // also by pid: it may not have created its process group yet
  collect();
}

// Collects the status of a child that has ended or was killed.
void WatchedChild::collect() {
  kill(-pid_,
       SIGKILL);  // all processes of the group; the id stays reserved until waitpid
  while (waitpid(pid_, &death_.status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  drain();
}

}  // namespace tenon
