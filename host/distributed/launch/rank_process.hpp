// SPDX-License-Identifier: Apache-2.0
//
// Starts one rank of --launch as a child process. launch.hpp decides when to end it.
// Invariant: the rank dies with the process that started it, however that process ends.
#pragma once

#include "host/distributed/ranks/rank_environment.hpp"
#include "host/distributed/ranks/topology.hpp"

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

namespace tenon {

enum class RankTerminal {
  kShared,  // standard output and error of this process
  kPipe,    // both go into a pipe; standard input is empty
};

struct RankStart {
  std::string program;             // a path
  std::vector<std::string> words;  // command line, starting with the program's name
  Environment variables;           // in addition to those of this process
  Processors processors;           // empty: those of this process
  RankTerminal terminal = RankTerminal::kShared;
  int crash_page = -1;  // descriptor that the rank inherits (crash_page.hpp); -1: none
};

struct RankProcess {
  pid_t pid = -1;
  int output = -1;  // non-blocking read end of the pipe; the caller closes it
};

// Errors   distributed.launch_failed if no process can be created, or the program cannot be run
// Threads  [main]: the child dies with the thread that calls this
RankProcess start_rank(const RankStart& start);

// Returns the name of a rank's process in ps: "host rank 1". The launcher passes it as the first
// word of the command line.
std::string rank_title(const std::string& program, uint32_t rank);
// Returns the program of a title, "host"; other names unchanged.
std::string without_rank_title(const std::string& name);
// Gives the process of a rank, and the threads that it starts, its title in top and ps. The kernel
// cuts the title to 15 bytes. Does nothing without other ranks.
// Threads: [main], before other threads
void show_rank(const std::string& program, const RankEnvironment& environment);

// Makes a rank that a torchrun agent started die with the agent. Otherwise a killed agent would
// leave the rank running in the run folder. start_rank does the same for ranks of --launch.
// Threads: any; the rank dies with the agent's thread that started it.
void die_with_agent(const RankEnvironment& environment);

}  // namespace tenon
