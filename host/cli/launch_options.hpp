// SPDX-License-Identifier: Apache-2.0
//
// The options of the launcher: how many ranks to start, where they run, and when to restart them.
// Threads: any.
#pragma once

#include "host/cli/command_line.hpp"
#include "host/terminal/given_options.hpp"
#include "host/terminal/option.hpp"

#include <string>
#include <vector>

namespace tenon {

inline constexpr Option kLaunchOption{
    "launch", "N", "start N ranks on this machine, one process each, and train on them"};
inline constexpr Option kBindOption{
    "bind",
    "HOW",
    "with --launch, the processors of a rank: numa (default) for its share of\n"
    "the NUMA nodes, cores for exclusive cores, or none for no binding",
    Repeat::kNo,
    "numa cores none"};
inline constexpr Option kMaxRestartsOption{
    "max-restarts",
    "K",
    "with --launch: after the loss of a rank, restart all ranks from the\n"
    "newest checkpoint, at most K times; default 0"};
inline constexpr Option kMinRanksOption{
    "min-ranks",
    "M",
    "with --max-restarts: exclude a rank that fails again before its first\n"
    "step, if at least M ranks remain; default: exclude none"};

// Reads --launch and --bind.
void read_launch_options(const GivenOptions& given, CommandLine& line);

// Reads --max-restarts and --min-ranks. Call read_launch_options() first.
void read_restart_options(const GivenOptions& given, CommandLine& line);

// Returns the arguments of each rank: the launcher's arguments without the options above.
std::vector<std::string> arguments_of_rank(const std::vector<std::string>& arguments);
// Returns the other ones: the options above with their values.
std::vector<std::string> arguments_of_launcher(const std::vector<std::string>& arguments);

// Returns the words of a command, program name first, with options of the launcher added where they
// may stand: before the other options, and after a verb.
std::vector<std::string> with_launcher_options(std::vector<std::string> words,
                                               const std::vector<std::string>& options);

}  // namespace tenon
