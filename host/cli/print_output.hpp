// SPDX-License-Identifier: Apache-2.0
//
// The program's standard output.
// Threads: [main].
#pragma once

#include <cstdio>
#include <string>

namespace tenon {

inline void print_output(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace tenon
