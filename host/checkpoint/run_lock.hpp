// SPDX-License-Identifier: Apache-2.0
//
// Who may write in a run's folder: one group of processes at a time, whose first rank holds the
// file `.lock` in it locked. What is locked is the open file, so that a process that ends in any
// way, also by kill -9 or loss of power, leaves no lock; the file that it may leave is taken over.
// Not for the threads or ranks of one run among each other.
// Invariant: the file is removed only by who holds it, and what is held is what the name names.
// Source: flock(2); over NFS Linux makes it a lock of the server's, which its other clients meet.
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

  // Locks a folder that is there. One that is locked is asked for again until `patience` is over:
  // the process before this one may be about to end. None where the file system has no locks; that
  // is logged. Errors  run.dir_in_use, with who holds it; run.dir_unwritable
  static std::optional<RunLock> take(const std::string& folder,
                                     std::chrono::milliseconds patience = {});

  ~RunLock() { release(); }
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&& other) noexcept;
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  RunLock(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  // Removes the file, if the name still names it, and lets go.
  void release() noexcept;

  int fd_;
  std::string path_;
};

}  // namespace tenon
