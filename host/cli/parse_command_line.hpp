// SPDX-License-Identifier: Apache-2.0
//
// Parses a command line: selects the action by its verb or its option, and the action then reads
// its options. Reads no files and no environment.
// Invariants: an option without effect on the action is an error, never ignored. A verb with its
// values means the same as the option of the action with these values.
#pragma once

#include "host/cli/command_line.hpp"

#include <string>
#include <vector>

namespace tenon {

// Parses the arguments that follow the program's name.
//
// Errors   usage.bad_option, usage.missing_recipe
CommandLine parse_command_line(const std::vector<std::string>& arguments);

}  // namespace tenon
