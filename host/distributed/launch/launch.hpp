// SPDX-License-Identifier: Apache-2.0
//
// --launch: turns this process into the launcher of several ranks of its own program. It holds the
// store (store_server.hpp), forwards signals, keeps the output of ranks without a terminal, and
// ends ranks that do not end by themselves. It takes no part in the training, and decides nothing
// about it.
// Invariants: a rank dies with the launcher, however the launcher ends; launch_ranks returns when
// no rank is left.
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

// How a rank ended.
struct EndedRank {
  uint32_t rank = 0;
  pid_t pid = 0;
  int status = 0;                       // as wait() reports it
  int code = 0;                         // exit status, if it ended by itself
  int signal = 0;                       // 0 if it ended by itself
  bool was_ended = false;               // killed after a request to stop, or by the launcher
  double seconds = 0;                   // since the start of the ranks
  std::string log_file;                 // "" for rank 0, and if a rank ended early
  std::vector<std::string> last_lines;  // of its output; empty if it has the terminal
  std::string report;                   // of a crash: "[id] message"; "" if there is none
  uint64_t step = 0;                    // last step that it began; 0 if unknown
  // False if the program ended by an exit of a plugin. True for programs that do not report it.
  bool has_ended = true;
};

// The consequences of a rank's end for the other ranks.
struct EndVerdict {
  bool has_failed = false;  // the run has failed; all ranks know, end by themselves, and report it
  std::optional<uint32_t> lost = {};  // a rank that does not end by itself: it hangs
};

// Times that only tests have a reason to change.
struct LaunchTimes {
  // Replaces `patience` if a rank ended before its first step: the others cannot get further, but
  // may still report why. Also replaces it if all ranks know that the run has failed, or must end.
  std::chrono::milliseconds short_patience{10'000};
  std::chrono::milliseconds to_end{5'000};  // between asking a rank to end and killing it
  // Signals within this time of the first count as one: timeout(1) signals both the process and its
  // group.
  std::chrono::milliseconds one_request{1000};
};

struct LaunchRequest {
  std::string program = "/proc/self/exe";
  // Command line, starting with the program's name, to which the launcher adds the rank for ps.
  std::vector<std::string> words;
  std::string options = {};               // see RankEnvironment::launch_options
  std::vector<RankProcessors> ranks;      // one entry for each rank
  std::vector<uint32_t> slots = {};       // of each rank (restart_plan.hpp); empty: its number
  uint16_t master_port = 0;               // of the store, on loopback
  std::string run_id = {};                // see RankEnvironment
  std::string secret = {};                // see RankEnvironment
  std::string run_folder = {};            // see RankEnvironment
  uint32_t restart = 0;                   // how often the ranks were started before
  std::chrono::milliseconds patience{0};  // time left to other ranks once one has ended
  LaunchTimes times = {};
  // Called once for each rank that ends.
  std::function<EndVerdict(const EndedRank&)> on_end;
};

struct LaunchOutcome {
  int code = 0;            // exit status of the run
  int signal = 0;          // by which the launcher must end; 0: it exits with `code`
  bool was_asked = false;  // a signal requested the end
  std::optional<EndedRank> first_failure;
};

// Returns an id that no other run has.
std::string new_run_id();

// Starts the ranks, and waits until they have ended. SIGTERM, SIGINT, SIGHUP, SIGUSR2 and SIGXCPU
// go to all ranks; a second such signal kills them. SIGUSR1 goes to the first running rank. Once a
// rank has ended, the others have `patience` or `times.short_patience` to end, and are then ended.
// Errors  distributed.launch_failed; no rank is left then
LaunchOutcome launch_ranks(const LaunchRequest& request);

// Returns "rank 1 (process 4711) ended 3.2 s after its start, by signal 9 (SIGKILL), ...", with its
// last output.
std::string rank_end_text(const EndedRank& end);

}  // namespace tenon
