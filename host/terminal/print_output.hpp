// SPDX-License-Identifier: Apache-2.0
//
// The program's standard output.
// Threads: [main].
#pragma once

#include "host/error/credentials.hpp"
#include "host/error/error.hpp"
#include "host/error/plugin_text.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>
#include <system_error>

namespace tenon {

// Prints text with control characters escaped (names in files may have any), and ensures that the
// system has taken all of it. A reader that closes the pipe early, such as `head`, ends the program
// by SIGPIPE without a message.
//
// Errors   output.unwritable
inline void print_exactly(const std::string& text) {
  errno = 0;
  if (std::fputs(printable_text(text).c_str(), stdout) >= 0 && std::fflush(stdout) == 0) {
    return;
  }
  const int error = errno;
  if (error == EPIPE) {
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
  }
  throw Error("output.unwritable",
              "standard output cannot be written: " + std::generic_category().message(error) +
                  "; print to a terminal or to another file");
}

// Same, for the result of an action, with the credentials of URIs hidden. The progress of a run
// is printed by Progress instead: a run continues if nobody reads it.
inline void print_output(const std::string& text) {
  print_exactly(hide_credentials(text));
}

}  // namespace tenon
