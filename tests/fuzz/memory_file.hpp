// SPDX-License-Identifier: Apache-2.0
//
// A file in memory with a path of its own, for code that opens files: a million cases are not
// written to a disk.
#pragma once

#include <string>
#include <string_view>

namespace tenon {

class MemoryFile {
 public:
  // Errors   std::system_error; so have the others
  explicit MemoryFile(const char* name);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  MemoryFile(MemoryFile&&) = delete;
  MemoryFile& operator=(MemoryFile&&) = delete;

  // Replaces what it holds.
  void write(std::string_view content) const;

  const std::string& path() const { return path_; }

 private:
  int descriptor_;
  std::string path_;
};

// Makes scratch folders on a file system in memory, if there is one. Called before the first.
void use_memory_for_scratch();

// The whole content of a file of the source or build tree.
std::string read_corpus_file(const std::string& path);

}  // namespace tenon
