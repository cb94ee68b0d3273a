// SPDX-License-Identifier: Apache-2.0
//
// Starts one rank of --launch as a child process. When to end it is launch.hpp's.
// Invariant: it dies with the process that started it, however that one ends.
#pragma once

#include "host/distributed/ranks/rank_environment.hpp"
#include "host/distributed/ranks/topology.hpp"

#include <string>
#include <sys/types.h>
#include <vector>

namespace tenon {

enum class RankTerminal {
  kShared,  // standard output and error of this process
  kPipe,    // both go into a pipe, and there is nothing to read
};

struct RankStart {
  std::string program;             // a path
  std::vector<std::string> words;  // of its command line, the program's name first
  Environment variables;           // on top of this process's
  Processors processors;           // none: as this process
  RankTerminal terminal = RankTerminal::kShared;
};

struct RankProcess {
  pid_t pid = -1;
  int output = -1;  // the pipe's read end, which does not block, for the caller to close
};

// Errors   distributed.launch_failed if no process can be made, or the program cannot be run
// Threads  [main]: the child dies with the thread that calls this
RankProcess start_rank(const RankStart& start);

// For a rank that an agent of torchrun has started: it does not outlive the agent either, which on
// its own would leave it behind, in the run's folder, when it is killed. Ranks of --launch are
// started so.
// Threads: any; what counts is the agent's thread that has started this process.
void die_with_agent(const RankEnvironment& environment);

}  // namespace tenon
