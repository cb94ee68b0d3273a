// SPDX-License-Identifier: Apache-2.0
//
// A child process in which code of plugins may crash, hang or exit without harm to the host. The
// parent sends it requests, waits for each answer up to a time limit, and collects what it prints.
// If the child crashes, it prints a backtrace, which child_output.hpp reads.
// Invariant: the processes that a child started end with it.
// Threads: one; created before the process starts other threads, because the child is a fork.
#pragma once

#include "host/log/log.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace tenon {

// What the child calls, for the parent if the child dies: text that ends with a NUL; "" while it
// loads a plugin. Shared memory.
using ChildNote = std::array<char, 256>;

// Replaces the note. Cuts a long text.
void set_note(ChildNote& note, std::string_view call);

// Answers are truncated to fit into one packet of the socket.
inline constexpr std::size_t kMaxAnswerBytes = 32768;

// How a child ended.
struct ChildDeath {
  int status = 0;        // of waitpid
  bool is_hung = false;  // killed by the host after the timeout
};

// An open file, closed at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&&) = delete;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }

  int get() const { return fd_; }
  void close();

 private:
  int fd_;
};

class WatchedChild {
 public:
  // Runs in the child. `socket` (SOCK_SEQPACKET) receives one packet for each request, and takes
  // one for each answer. The child ends when the function returns.
  using Serve = std::function<void(int socket, ChildNote& note)>;

  // Forks. The child logs lines of at least `level` to its output, not to the run's log file.
  //
  // Errors   run.out_of_resources if a process cannot be created
  WatchedChild(const Serve& serve, LogLevel level);
  WatchedChild(const WatchedChild&) = delete;
  WatchedChild& operator=(const WatchedChild&) = delete;
  ~WatchedChild();

  // Sends a request. Returns the answer, or null if the child died; see death().
  std::optional<std::string> ask(std::string_view request, std::chrono::milliseconds timeout);

  const ChildDeath& death() const { return death_; }
  // What the child was doing: "create of loss \"mse\""; "" while it loaded a library.
  std::string call() const;
  // What the child printed since the last request.
  const std::string& output() const { return text_; }

 private:
  std::optional<std::string> receive();
  void drain();
  bool has_ended();
  void reap(std::chrono::steady_clock::time_point deadline);
  void end_by_force();
  void collect();

  std::optional<Descriptor> socket_;
  std::optional<Descriptor> output_;
  pid_t pid_ = 0;
  ChildDeath death_;
  std::string text_;
  ChildNote* note_ = nullptr;  // mapped
};

}  // namespace tenon
