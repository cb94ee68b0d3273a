// SPDX-License-Identifier: Apache-2.0
//
// The output of --help, made from the tables of all actions.
// Threads: any.
#pragma once

#include <string>

namespace tenon {

// Ends in a line break; no line is longer than 100 characters.
std::string help_text(const std::string& program);

// "usage: host --recipe FILE ...": one line, for messages.
std::string usage_line(const std::string& program);

}  // namespace tenon
