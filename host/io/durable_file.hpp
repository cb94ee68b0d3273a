// SPDX-License-Identifier: Apache-2.0
//
// Files and directories that survive a power failure, for the local storage. All functions repeat
// system calls that a signal interrupts.
// Errors   storage.io with the path and the system's reason
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tenon {

// A descriptor that is closed at the end. Closing reports no errors: a file that was written is
// synced before.
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

// A new file that is appended to. The disk starts to write while more comes, so that the sync at
// the end has little left to wait for.
class DurableFile {
 public:
  // Errors  storage.exists if a file has that name
  static DurableFile create(const std::string& path);

  void write(std::span<const std::byte> bytes);
  // What was written is on the disk. A failure is for good: the system forgets what it could not
  // write, and a second sync would succeed without it.
  void sync();

  bool is_open() const noexcept { return file_.is_open(); }
  void close() noexcept { file_.close(); }

 private:
  DurableFile(OpenFile file, std::string path);
  void start_writeback();

  OpenFile file_;
  std::string path_;
  uint64_t size_ = 0;
  uint64_t started_ = 0;  // bytes that the disk was asked to write
  bool can_start_ = true;
};

// Throws storage.io: "cannot {action} {path}: {reason of errno value}; {what to try}".
[[noreturn]] void throw_disk_error(std::string_view action, const std::string& path, int error);

// What was made, renamed or removed in a folder is on the disk.
void sync_folder(const std::string& path);

void rename_path(const std::string& from, const std::string& to);

// Replaces a file atomically, durably when it returns. The temporary name ends in ".tmp".
void replace_file(const std::string& path, std::string_view text);

// Makes the folders that are missing, durably.
void make_folders(const std::string& path);

}  // namespace tenon
