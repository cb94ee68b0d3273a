// SPDX-License-Identifier: Apache-2.0
//
// An exclusive lock of a file, for run folders and caches. All locks of the host have one policy:
// - Whoever may only read the folder cannot take or delay the lock. The file can be opened only by
//   users that may write to its folder: a stranger with read access could otherwise lock it.
// - The lock belongs to the open file. The system ends it with the process, also after kill -9.
// - On a file system without locks the caller continues without one, at once.
// Source: fcntl(2), open file description locks; flock(2) if the system lacks these.
// Threads: one at a time.
#pragma once

#include "host/io/durable_file.hpp"

#include <string>

namespace tenon {

class FileLock {
 public:
  enum class State {
    kHeld,
    kBusy,         // another process holds it
    kUnsupported,  // the file system has no locks; the reason is in problem()
  };

  // Opens the file, creating it if it is missing. Does not lock it. Never waits.
  //
  // Errors  storage.io, also if the file is not a regular file, or a symbolic link
  explicit FileLock(std::string path);

  // Tries once.
  State try_lock();

  const std::string& path() const { return path_; }
  const std::string& problem() const { return problem_; }
  int file() const { return file_.get(); }
  // True if the locked file is still the one at its path.
  bool is_at_path() const noexcept;

 private:
  std::string path_;
  std::string problem_;
  OpenFile file_;  // closing it releases the lock
};

}  // namespace tenon
