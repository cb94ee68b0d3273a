// SPDX-License-Identifier: Apache-2.0
//
// A run of the built program as a child that is looked at, sent signals, and killed while it runs:
// its ranks, and what it leaves. Invariant: no process of it outlives the object, or the test.
// Threads: the one that made it.
#pragma once

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {

// Looks every few milliseconds; the bound is for tests that fail.
template <class Condition>
void wait_until(Condition condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(100);
  while (!condition()) {
    REQUIRE(std::chrono::steady_clock::now() < limit);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

// The host with the plugins of the build, on a recipe; without a run folder.
std::vector<std::string> host_words(const std::filesystem::path& recipe);

class StartedRun {
 public:
  // What it prints is in run_dir.out and run_dir.err.
  StartedRun(const std::filesystem::path& recipe,
             const std::filesystem::path& run_dir,
             const std::vector<std::string>& arguments = {},
             const std::map<std::string, std::string>& environment = {});
  ~StartedRun();
  StartedRun(const StartedRun&) = delete;
  StartedRun& operator=(const StartedRun&) = delete;

  // Of the process that was started: the launcher, where there are several ranks.
  pid_t process() const { return process_; }
  // The process of a rank; 0 where it is not there.
  pid_t rank(uint32_t rank) const;
  // Its processes that are there.
  std::vector<pid_t> processes() const;
  // All that it has started and that is there, whatever it is: those of its session.
  std::vector<pid_t> session() const;
  bool has_ended() const;
  void signal(int number) const;
  // Its exit status, 128 + n where signal n ended it; it is killed after 100 s.
  int wait();

  std::string out() const;
  std::string err() const;

 private:
  std::filesystem::path run_dir_;
  pid_t process_ = -1;
  pid_t session_ = -1;
  int status_ = 0;
};

// What a run has left in its folder.
nlohmann::json summary_of(const std::filesystem::path& run_dir);

// The newest checkpoint that is listed; step 0 and no name where there is none.
struct NewestCheckpoint {
  uint64_t step = 0;
  std::string name = {};
};
// Fails the test where one that is listed, or `latest`, is not sound to the last byte.
NewestCheckpoint check_checkpoints(const std::filesystem::path& run_dir);

}  // namespace tenon
