// SPDX-License-Identifier: Apache-2.0
//
// The output of --help, made from the tables of all actions.
// Threads: any.
#pragma once

#include <string>

namespace tenon {

// Returns the help. It ends in a line break; no line is longer than 100 characters.
std::string help_text(const std::string& program);

// Returns one line for messages: "usage: host --recipe FILE ...".
std::string usage_line(const std::string& program);

}  // namespace tenon
