// SPDX-License-Identifier: Apache-2.0
//
// Reads a command line: chooses the action, and has it read its options. It reads arguments only:
// no file, no environment.
// Invariant: an option without effect on the action is an error, never ignored.
#pragma once

#include "host/cli/command_line.hpp"

#include <string>
#include <vector>

namespace tenon {

// Reads the arguments that follow the program's name.
//
// Errors   usage.bad_option, usage.missing_recipe
CommandLine parse_command_line(const std::vector<std::string>& arguments);

}  // namespace tenon
