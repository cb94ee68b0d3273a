// SPDX-License-Identifier: Apache-2.0
//
// The host as a child process: started, looked at, sent signals. Invariant: no process of it
// outlives the object: all that it started is in its session, and is killed by process id.
// Threads: the one that made it.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace tenon {

struct ChildOptions {
  std::map<std::string, std::string> environment = {};
  // Bytes of memory in use. A process that exceeds them is killed; peak_bytes() then does too. Not
  // a limit of the system: tables reserve far more addresses than they use.
  std::optional<std::uint64_t> memory_limit = std::nullopt;
};

// The host with the plugins of the build and of the tests, and these words.
std::vector<std::string> attacked_host(const std::vector<std::string>& words);

class Child {
 public:
  // `log` gets its standard output and error.
  //
  // Errors   std::system_error
  Child(const std::vector<std::string>& words,
        std::filesystem::path log,
        const ChildOptions& options = {});
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  Child(Child&&) = delete;
  Child& operator=(Child&&) = delete;

  pid_t process() const { return session_; }
  bool has_ended() const;
  // Waits for its end. False if it is still running.
  bool ends_within(std::chrono::milliseconds limit);
  // The processes of its session that exist, itself included.
  std::vector<pid_t> session() const;
  // The process of a rank; 0 if there is none.
  pid_t rank(int rank) const;

  // The exit status, 128 + n if signal n ended it. Null if it did not end in time; it is then
  // killed.
  std::optional<int> wait(std::chrono::milliseconds limit);
  // Waits until no process of the session exists. False if some are left, which are then killed.
  bool wait_for_session(std::chrono::milliseconds limit);

  std::string log() const;
  const std::string& command() const { return command_; }
  // The most memory that a process of it had, after wait().
  std::uint64_t peak_bytes() const { return peak_bytes_; }

 private:
  void kill_session() const;
  void check_memory();

  std::filesystem::path log_;
  std::optional<std::uint64_t> memory_limit_;
  std::string command_;
  pid_t session_ = -1;
  bool is_waited_ = false;
  int status_ = 0;
  std::uint64_t peak_bytes_ = 0;
};

}  // namespace tenon
