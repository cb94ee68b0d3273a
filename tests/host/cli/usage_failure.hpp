// SPDX-License-Identifier: Apache-2.0
//
// How a test reads the error of a command line.
#pragma once

#include "host/cli/parse_command_line.hpp"
#include "host/error/error.hpp"

#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {

using Words = std::vector<std::string>;

// "id: message" of the error that parsing throws, or "no error".
inline std::string usage_failure(const Words& words) {
  try {
    (void)parse_command_line(words);
  } catch (const Error& error) {
    CHECK(error.exit_code() == ExitCode::kUsage);
    return error.id() + ": " + error.message();
  }
  return "no error";
}

}  // namespace tenon
