// SPDX-License-Identifier: Apache-2.0
//
// Formats a command as a line for a shell.
// Threads: any.
#pragma once

#include <span>
#include <string>

namespace tenon {

// Joins the words with spaces, quoted so that a POSIX shell splits them into the same words.
std::string shell_text(std::span<const std::string> words);

}  // namespace tenon
