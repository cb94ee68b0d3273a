// SPDX-License-Identifier: Apache-2.0
//
// Reads what a child process printed that ran code of a plugin (watched_child.hpp).
// Threads: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// Precedes the frames that a crashing child prints.
inline constexpr std::string_view kBacktraceMark = "\n[tenon backtrace]\n";

// The output of a plugin, split into text and backtrace.
struct ChildOutput {
  std::string text;
  std::vector<std::string> frames;  // "file(function+0x12) [0x34]"
};

ChildOutput split_output(const std::string& all);

// Joins the last two lines of the output, because C++ runtimes report an uncaught exception in two.
std::string last_words(const std::string& text);

// Returns the innermost frame inside the plugin `file`, "crash.so(+0x1139)", or "".
std::string innermost_frame(const std::string& file, const std::vector<std::string>& frames);

// Returns the text without whitespace at its ends.
std::string without_outer_space(std::string_view text);

// "SIGSEGV".
std::string signal_name(int signal);

}  // namespace tenon
