// SPDX-License-Identifier: Apache-2.0
//
// The identity of a plugin's file, from the scan of its folder to its loading: the file whose
// manifest was read, that was vetted and that is loaded is one file with the same bytes.
// Limit: the user who starts the host can change the file at any time, also after it was loaded.
#pragma once

#include "host/io/durable_file.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace tenon {

// Identifies one state of a file without reading it. The system changes `changed_ns` with each
// change of content or attributes.
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;

  bool operator==(const FileStamp&) const = default;
};

// Returns null if the file cannot be accessed.
std::optional<FileStamp> file_stamp(const std::string& file);

// A plugin's file, open.
//
// Owner    the descriptor must stay open as long as a library that check_loaded() saw: the dynamic
//          linker remembers its name
class PluginFile {
 public:
  // Opens and hashes a file. `described` names the plugin in messages.
  //
  // Errors   plugin.load_failed if the file cannot be read
  PluginFile(const std::string& path, std::string described);

  // Returns the content_hash() of the open file.
  const std::string& hash() const noexcept { return hash_; }

  // Checks that the file has the hash, or if "" is passed, the stamp. Null matches any file.
  //
  // Errors   plugin.changed
  void check_same(const std::optional<FileStamp>& stamp, const std::string& hash) const;

  // Checks that the dynamic linker has mapped this file, and that nobody changed it meanwhile.
  // `library` is the result of dlopen() for the path.
  //
  // Errors   plugin.changed
  void check_loaded(void* library) const;

 private:
  [[noreturn]] void fail() const;

  std::string path_;
  std::string described_;
  OpenFile file_;
  FileStamp stamp_;
  std::string hash_;
};

}  // namespace tenon
