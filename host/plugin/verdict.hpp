// SPDX-License-Identifier: Apache-2.0
//
// The result of vetting one plugin. Threads: any.
#pragma once

#include <string>

namespace tenon {

// The result of vetting a plugin.
struct Verdict {
  std::string id;       // of the error with which the plugin is refused; "" if it is usable
  std::string message;  // names file, reason and fix in one line
  std::string details;  // what the plugin printed, and the frames of a crash; several lines, or ""
  // False if something other than the file may be the reason: another process that sent a signal, a
  // limit, a lack of memory, or a slow machine. Such a verdict is not cached.
  bool is_lasting = true;
  std::string hash = {};  // content_hash() of the file that was loaded; "" if it was not loaded

  bool is_good() const noexcept { return id.empty(); }
};

}  // namespace tenon
