// SPDX-License-Identifier: Apache-2.0
//
// Exclusive access to a run folder, for one run at a time. The first rank of the run locks the file
// `.lock` in the folder. The lock belongs to the open file, so it ends with the process, also after
// kill -9 or power loss; the next run takes over the leftover file. The lock does not synchronize
// threads or ranks of one run.
// Invariant: only the holder removes the file, and the locked file is the one at that path.
// Source: flock(2); over NFS, Linux maps it to a lock on the server that other clients respect.
// Threads: [main].
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace tenon {

class RunLock {
 public:
  static constexpr char kFile[] = ".lock";

  // Locks an existing folder. If it is locked, retries for `patience`, because the previous process
  // may be about to end. Returns null, and logs a message, if the file system has no locks.
  // Errors  run.dir_in_use, with the holder; run.dir_unwritable
  static std::optional<RunLock> take(const std::string& folder,
                                     std::chrono::milliseconds patience = {});

  ~RunLock() { release(); }
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&& other) noexcept;
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  RunLock(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  // Removes the file, if it is still at its path, and unlocks it.
  void release() noexcept;

  int fd_;
  std::string path_;
};

}  // namespace tenon
