// SPDX-License-Identifier: Apache-2.0
//
// Caches the verdicts of vetting, so that a plugin is loaded in a child once and not at every
// start. An entry is valid for one content of a file, one host and one libtorch. This also holds
// for refused plugins, whose entries include the reason.
// Invariants: a missing or corrupt cache file only costs time, and so does one that another user
// could have written. A verdict that something other than the file may have caused is not cached.

#pragma once

#include "host/trust/plugin_file.hpp"
#include "host/trust/verdict.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tenon {

// Identifies this build of the host: the linker's build id, or else the size and time of its file.
std::string host_build_id();

class VetCache {
 public:
  // Reads the cache from `file`; "" disables it. `host` identifies everything about the host that a
  // verdict depends on.
  VetCache(std::string file, std::string host);

  // Returns the verdict on `plugin`; the message of a refused plugin says that it is cached.
  // Returns null if there is no entry or the file has changed. A new timestamp alone is not a
  // change.
  std::optional<Verdict> find(const std::string& plugin);

  // Stores a verdict that was reached after `stamp` was taken. Ignores verdicts that depend on more
  // than the file, because a library that is missing now may exist later, and verdicts that are not
  // lasting.
  void store(const std::string& plugin, const FileStamp& stamp, const Verdict& verdict);

  // Writes the file if there are new entries, merged with entries that other processes wrote
  // meanwhile.
  void save();

 private:
  struct Entry {
    std::string host;
    std::string file;  // its path at that time; verdict.message may start with it
    FileStamp stamp;
    std::string hash;
    int64_t unix_seconds = 0;
    Verdict verdict;
  };
  using Entries = std::multimap<std::string, Entry>;  // by canonical path

  static Entries read(const std::string& file);
  Entry* entry_of(const std::string& path);

  std::string file_;
  std::string host_;
  Entries entries_;
  bool is_changed_ = false;
};

}  // namespace tenon
