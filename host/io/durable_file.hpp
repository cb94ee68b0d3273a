// SPDX-License-Identifier: Apache-2.0
//
// Files and directories that survive a power failure, for the local storage. All functions repeat
// interrupted system calls.
// Errors   storage.io with the path and the system's reason
#pragma once

#include "host/error/error.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tenon {

// Owns a file descriptor. Closing reports no errors, because written files are synced first.
class OpenFile {
 public:
  explicit OpenFile(int fd = -1) noexcept : fd_(fd) {}
  ~OpenFile() { close(); }
  OpenFile(OpenFile&& other) noexcept : fd_(other.release()) {}
  OpenFile& operator=(OpenFile&& other) noexcept;
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int get() const noexcept { return fd_; }
  bool is_open() const noexcept { return fd_ >= 0; }
  void close() noexcept;

 private:
  int release() noexcept;

  int fd_;
};

// A new file, written sequentially. Writeback starts during writing, so that the final sync takes
// little time.
class DurableFile {
 public:
  // Errors  storage.exists if a file has that name
  static DurableFile create(const std::string& path);

  void write(std::span<const std::byte> bytes);
  // Waits until all written data is on the disk. Do not retry after a failure: the system drops
  // data that it could not write, and a second sync would succeed without the data.
  void sync();

  bool is_open() const noexcept { return file_.is_open(); }
  void close() noexcept { file_.close(); }

 private:
  DurableFile(OpenFile file, std::string path);
  void start_writeback();

  OpenFile file_;
  std::string path_;
  uint64_t size_ = 0;
  uint64_t started_ = 0;  // bytes whose writeback was started
  bool can_start_ = true;
};

// What to try after a failed system call: "free disk space there". `error` is a value of errno.
std::string_view disk_advice(int error) noexcept;

// storage.io: "cannot {action} {path}: {the system's reason}; {what to try}".
class DiskError : public Error {
 public:
  // `number` is a value of errno.
  DiskError(std::string_view action, const std::string& path, int number);

  int number() const noexcept { return number_; }

 private:
  int number_;
};

// Throws a DiskError.
[[noreturn]] void throw_disk_error(std::string_view action, const std::string& path, int error);

// Waits until entries created, renamed or removed in a folder are on the disk.
void sync_folder(const std::string& path);

void rename_path(const std::string& from, const std::string& to);

// Replaces a file atomically and durably: after a crash or a power failure, the path has the old
// content or the new one. Writes to a new file whose name is the path and `suffix`, which two
// processes must not use at once; removes what has that name, without following a symbolic link.
// Leaves no temporary file after an error.
void replace_file(const std::string& path, std::string_view text, std::string_view suffix = ".tmp");

// Makes a complete file durable, then renames it.
void publish_file(const std::string& from, const std::string& to);

// Creates missing folders along the path, durably. Returns false if all of them existed.
bool make_folders(const std::string& path);

// Waits until the name of an existing file or folder is on the disk: whoever created it may have
// ended before syncing it. Does nothing if the folder that contains it cannot be read.
void sync_name(const std::string& path);

}  // namespace tenon
