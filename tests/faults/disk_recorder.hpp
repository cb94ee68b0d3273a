// SPDX-License-Identifier: Apache-2.0
//
// Records what a program and all that it starts change in a folder, and what of it they sync. It
// watches system calls (ptrace), so it also sees those that the C library makes within itself.
// After each call that may change a file it compares the file with what is known of it, so that no
// call has to be interpreted. Not seen are writes through mapped memory and io_uring until the next
// call to that file; the test compares the whole folder with the record at the end. Threads: one,
// which has no other child process meanwhile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "tests/faults/disk_log.hpp"

namespace tenon {

class DiskRecorder {
 public:
  // `root`: an empty folder.
  explicit DiskRecorder(const std::filesystem::path& root);

  // False, with the reason, if the system does not let a process be watched.
  static bool is_possible(std::string& reason);

  // Runs a program in the folder until all its processes have ended, and returns its exit status,
  // 128 + n if signal n ended it. Its output goes into the file `out`, outside of the folder; each
  // line becomes an event kSaid. If `kill_after` returns true for an event, the program is killed.
  int run(const std::vector<std::string>& words,
          const std::filesystem::path& out,
          const std::function<bool(const DiskEvent&)>& kill_after = nullptr);

  const DiskLog& log() const { return log_; }
  DiskLog& log() { return log_; }
  // The folder as the record has it. Equal to the real one, if the record is complete.
  DiskImage image() const;

 private:
  using FileId = std::pair<dev_t, ino_t>;
  struct Call {
    int64_t number;
    uint64_t args[6];
    std::string from;  // paths, absolute
    std::string to;
  };

  bool begin_call(pid_t task, Call& call) const;
  void end_call(pid_t task, const Call& call, int64_t result);
  void opened(pid_t task, int64_t fd);
  void written(const std::string& file);
  void made(NodeKind kind, const std::string& path);
  void removed(const std::string& path);
  void renamed(const std::string& from, const std::string& to);
  void synced(pid_t task, uint64_t fd);
  void said(const std::string& text);
  void compare(size_t node, const std::string& text, const std::string& call);
  void add(DiskEvent event);
  void stop_at_signal(pid_t task, int status);

  // The path below the root; false if it is not there.
  bool is_below(const std::string& path, std::string& relative) const;
  size_t node_at(const std::string& relative) const;
  DiskEvent::Entry entry_at(const std::string& relative, size_t node) const;

  std::string root_;
  std::string out_;
  DiskLog log_;
  std::vector<std::map<std::string, size_t>> folders_{1};  // by node; empty for files
  std::vector<size_t> contents_{0};                        // by node
  std::map<FileId, size_t> files_;
  std::string said_;
  std::function<bool(const DiskEvent&)> kill_after_;
  pid_t process_ = -1;
};

}  // namespace tenon
