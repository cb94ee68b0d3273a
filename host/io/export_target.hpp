// SPDX-License-Identifier: Apache-2.0
//
// A file or folder that is written for the user. One process at a time writes it, under a temporary
// name next to it that nothing else has.
// Invariant: nothing that existed before is removed.
// Threads: one at a time.
#pragma once

#include "host/io/durable_file.hpp"
#include "host/io/file_lock.hpp"

#include <optional>
#include <string>

namespace tenon {

class ExportTarget {
 public:
  // Locks the target until destruction, by a hidden file next to it. The folder that contains the
  // target must exist.
  // Errors  export.in_use if another process writes it; storage.io
  explicit ExportTarget(const std::string& path);
  // Removes its own lock file. Whoever uses the temporary name removes it.
  ~ExportTarget();
  ExportTarget(const ExportTarget&) = delete;
  ExportTarget& operator=(const ExportTarget&) = delete;

  // Returns the absolute path.
  const std::string& path() const { return path_; }
  // Returns a name next to the target, which nothing had at construction: a random part makes it
  // unique.
  const std::string& temporary() const { return temporary_; }
  // Moves the file at the temporary name to path(), where nothing may be. The file must be
  // synced.
  // Errors  storage.exists; storage.io
  void publish_new_file() const;

 private:
  void lock();

  std::string path_;
  std::string lock_path_;
  std::string temporary_;
  std::optional<FileLock> lock_;
  bool is_lock_own_ = false;  // this object created the lock file
};

}  // namespace tenon
