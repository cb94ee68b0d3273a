// SPDX-License-Identifier: Apache-2.0
//
// Warnings about files that are logged once: each start finds the same files, and a line that comes
// at every start is read by nobody. A file of the user's cache folder lists what was logged.
// Invariants: a missing or corrupt list only repeats lines, and so does one that another user could
// have written. A notice about a file expires with the file.
// Threads: one at a time per object.
#pragma once

#include "host/trust/plugin_file.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tenon {

// A warning about a file or a folder.
struct Notice {
  std::string path;
  std::string text;
  std::optional<FileStamp> stamp = {};  // if set, another state of the file is a new notice
};

// Returns ${XDG_CACHE_HOME:-~/.cache}/tenon/notices.json, or "" if neither variable is an absolute
// path.
std::string default_notice_file();

class Notices {
 public:
  // Reads the list from `file`. With "" nothing is stored, and each notice is new.
  explicit Notices(std::string file);

  // True if the notice is not in the list. Adds it.
  bool is_new(const Notice& notice);

  // Writes the list if it has changed, merged with what other processes have written meanwhile.
  void save();

 private:
  // By path and text; the value identifies the state of the file.
  using Entries = std::map<std::pair<std::string, std::string>, std::string>;

  static Entries read(const std::string& file);

  std::string file_;
  Entries entries_;
  bool is_changed_ = false;
};

}  // namespace tenon
