// SPDX-License-Identifier: Apache-2.0
//
// Exclusive access to a run folder, for one run at a time. The first rank of the run locks the file
// `.lock` in the folder (host/io/file_lock.hpp), and writes its name to it. The lock ends with the
// process; the next run takes over the leftover file. The lock does not synchronize threads or
// ranks of one run. Invariant: only the holder removes the file, and the locked file is the one at
// that path. Threads: [main]; `lost` and `name` from any.
#pragma once

#include "host/io/file_lock.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace tenon {

class RunLock {
 public:
  static constexpr char kFile[] = ".lock";

  // Locks an existing folder. If it is locked, retries for `patience`, because the previous process
  // may be about to end. If the file system has no locks, logs a warning and returns an object that
  // still notices if another run takes over the folder.
  // Errors  run.dir_in_use, with the holder; run.dir_unwritable, also for a folder or a file in it
  //         that another user has prepared
  static RunLock take(const std::string& folder, std::chrono::milliseconds patience = {});

  ~RunLock() { release(); }
  RunLock(RunLock&& other) noexcept = default;
  RunLock& operator=(RunLock&& other) noexcept;
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // Returns why the folder is no longer that of this run: "it was removed or renamed"; "" if it is,
  // or if the file system does not answer.
  std::string lost() const;
  // Returns the line in the file that names this run. No other run has it.
  const std::string& name() const { return name_; }

 private:
  RunLock(FileLock file, std::string folder);
  // Removes the file, if it is still at its path, and unlocks it.
  void release() noexcept;

  std::optional<FileLock> file_;
  std::string folder_;
  std::string name_;
  uint64_t device_ = 0;  // of the folder
  uint64_t inode_ = 0;
};

}  // namespace tenon
