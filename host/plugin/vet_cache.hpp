// SPDX-License-Identifier: Apache-2.0
//
// Remembers what vetting found, so that a plugin is loaded in a child once and not on every start.
// An entry holds for one file with its bytes, one host and one libtorch; bad ones are kept with
// their reason, and expire with the same three.
// Invariant: it is a cache: whatever is wrong with its file costs time and nothing else.

#pragma once

#include "host/plugin/vet.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tenon {

// ${XDG_CACHE_HOME:-~/.cache}/tenon/vetted.json, or "" if there is neither.
std::string default_vet_cache_file();

// Identifies this build of the host: the build id that the linker gave it, or else
// size and time of its file.
std::string host_build_id();

// Identifies one state of a file without reading it.
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;

  bool operator==(const FileStamp&) const = default;
};

// Nothing if the file cannot be looked at.
std::optional<FileStamp> file_stamp(const std::string& file);

class VetCache {
 public:
  // Reads the cache in `file`; "" makes one that remembers nothing. `host` is all of the host that
  // a verdict depends on.
  VetCache(std::string file, std::string host);

  // The verdict on `plugin`, or nothing if it is not known: never seen, changed since, or found
  // hung within less than `timeout`. A file that was touched and holds the same bytes is known.
  std::optional<Verdict> find(const std::string& plugin, std::chrono::milliseconds timeout);

  // Keeps a verdict that was found after `stamp` was taken, unless it depends on more than the
  // file: a library that is missing today may be there tomorrow.
  void store(const std::string& plugin,
             const FileStamp& stamp,
             const Verdict& verdict,
             std::chrono::milliseconds timeout);

  // Writes the file, if there is anything new, with what other hosts have written there meanwhile.
  void save();

 private:
  struct Entry {
    std::string host;
    std::string file;  // as it was named then; verdict.message begins with it
    FileStamp stamp;
    std::string hash;
    int64_t unix_seconds = 0;
    int64_t timeout_ms = 0;
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
