// SPDX-License-Identifier: Apache-2.0
//
// Runs a program and keeps what it printed. For tests of the command line and of build tools.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

struct SubprocessResult {
  int exit_code = -1;            // 128 + n where signal n ended it, as a shell has it
  std::string out;               // standard output
  std::string err;               // standard error
  std::uint64_t peak_bytes = 0;  // the most memory that it, or a child of its, had at once
};

struct SubprocessOptions {
  std::string working_dir = {};                                 // empty: the test's own
  std::map<std::string, std::string> environment = {};          // on top of the test's own
  std::optional<std::uint64_t> file_size_limit = std::nullopt;  // bytes a file may have
  std::optional<std::uint64_t> memory_limit = std::nullopt;     // bytes of addresses: RLIMIT_AS
  bool is_out_closed = false;                                   // nobody reads its standard output
  std::string out_file = {};  // its standard output goes there; empty: into the result
};

// Runs arguments[0], looked for in PATH, without a shell, and waits for its end.
//
// Errors   std::system_error if no process can be made; exit code 127 if the program is not found
// Threads  any
SubprocessResult run_subprocess(const std::vector<std::string>& arguments,
                                const SubprocessOptions& options = {});

}  // namespace tenon
