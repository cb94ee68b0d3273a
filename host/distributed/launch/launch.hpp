// SPDX-License-Identifier: Apache-2.0
//
// --launch: this process becomes the launcher of several ranks of its own program. It holds the
// store (store_server.hpp), hands signals on, keeps what ranks without a terminal say, and ends
// what does not end by itself. It takes no part in the training, and decides nothing about it.
// Invariants: a rank dies with the launcher, however that one ends; launch_ranks returns when no
// rank is left.
// Threads: [main].
#pragma once

#include "host/distributed/launch/binding.hpp"
#include "host/distributed/ranks/rank_environment.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace tenon {

// How a rank has ended.
struct EndedRank {
  uint32_t rank = 0;
  pid_t pid = 0;
  int status = 0;                       // as wait() reports it
  int code = 0;                         // exit status, where it ended by itself
  int signal = 0;                       // 0 if it ended by itself
  bool was_ended = false;               // by the launcher: it had to, or was asked to
  double seconds = 0;                   // from the start of the ranks on
  std::string log_file;                 // "" where it has told none: rank 0, and who ends before
  std::vector<std::string> last_lines;  // it wrote; none if they are on the terminal
};

// What follows for the others from the end of a rank.
struct EndVerdict {
  bool has_failed =
      false;  // the run has, and all ranks know: they end by themselves, and report it
  std::optional<uint32_t> lost = {};  // a rank that will not: it stands still
};

// Times that none but a test has a reason to change.
struct LaunchTimes {
  // Where a rank has not come to its first step, neither can the others, and they may say why; and
  // where all know that the run has failed, they end soon.
  std::chrono::milliseconds short_patience{10'000};
  std::chrono::milliseconds to_end{5'000};  // between asking a rank to end and ending it
  // Signals that come closer are one: timeout(1) sends its own to the process and to its group.
  std::chrono::milliseconds one_request{500};
};

struct LaunchRequest {
  std::string program = "/proc/self/exe";
  std::vector<std::string> words;         // of the command line of a rank, the program's name first
  std::vector<RankProcessors> ranks;      // one for each
  std::vector<uint32_t> slots = {};       // of each (restart_plan.hpp); empty: its own number
  uint16_t master_port = 0;               // of the store, on the loopback
  std::string run_id = {};                // see RankEnvironment
  uint32_t restart = 0;                   // how often they were started before
  std::chrono::milliseconds patience{0};  // with the others, when a rank has ended
  LaunchTimes times = {};
  // Called once for each rank that ends.
  std::function<EndVerdict(const EndedRank&)> on_end;
};

struct LaunchOutcome {
  int code = 0;            // exit status of the run
  int signal = 0;          // by which the launcher is to end; 0: by `code`
  bool was_asked = false;  // to end, by a signal
  std::optional<EndedRank> first_failure;
};

// An id that no other run has.
std::string new_run_id();

// Starts the ranks, and waits for their ends. SIGTERM and SIGINT go to all ranks; a second one ends
// them. SIGUSR1 goes to the first rank. When one has ended, the others are given `patience`, or
// `times.short_patience` where it failed before its first step, and are ended then. Errors
// distributed.launch_failed; no rank is left then
LaunchOutcome launch_ranks(const LaunchRequest& request);

// "rank 1 (process 4711) was killed by SIGKILL 3.2 s after its start, ...", with what it said last.
std::string rank_end_text(const EndedRank& end);

}  // namespace tenon
