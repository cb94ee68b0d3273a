// SPDX-License-Identifier: Apache-2.0
//
// The result of vetting one plugin. Threads: any.
#pragma once

#include <string>
#include <vector>

namespace tenon {

// The result of vetting a plugin.
struct Verdict {
  std::string id;       // of the error with which the plugin is refused; "" if it is usable
  std::string message;  // names file, reason and fix in one line
  std::string details;  // what the plugin printed; several lines, or ""
  // False if something other than the file may be the reason: another process that sent a signal, a
  // limit, a lack of memory, or a slow machine. Such a verdict is not cached.
  bool is_lasting = true;
  std::string hash = {};    // content_hash() of the file that was loaded; "" if it was not loaded
  std::string signal = {};  // that ended the child process: "SIGSEGV"; "" if none did
  std::vector<std::string> backtrace = {};  // of a crash, innermost first: "a.so(f+0x12) [0x34]"

  bool is_good() const noexcept { return id.empty(); }
};

}  // namespace tenon
