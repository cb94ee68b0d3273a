// SPDX-License-Identifier: Apache-2.0
#include "host/io/file_lock.hpp"

#include "host/io/regular_file.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

// Read and write access for those who may change the folder, and so could replace the file.
mode_t mode_beside(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  struct stat status {};
  mode_t mode = S_IRUSR | S_IWUSR;
  if (::stat(folder.empty() ? "." : folder.c_str(), &status) != 0) {
    return mode;
  }
  const bool is_sticky = (status.st_mode & S_ISVTX) != 0;  // nobody may replace files of others
  if ((status.st_mode & S_IWGRP) != 0 && !is_sticky) {
    mode |= S_IRGRP | S_IWGRP;
  }
  if ((status.st_mode & S_IWOTH) != 0 && !is_sticky) {
    mode |= S_IROTH | S_IWOTH;
  }
  return mode;
}

bool is_busy(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EACCES;
}

// Returns 0, or the reason. A lock of this kind is refused at once if another process holds one.
int lock_description(int file) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return ::fcntl(file, F_OFD_SETLK, &whole) == 0 ? 0 : errno;
}

}  // namespace

FileLock::FileLock(std::string path) : path_(std::move(path)) {
  const mode_t mode = mode_beside(path_);
  // O_NONBLOCK: a FIFO of that name must not make the process wait.
  file_ = OpenFile(::open(
      path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, mode));
  struct stat status {};
  if (!file_.is_open() || ::fstat(file_.get(), &status) != 0) {
    throw_disk_error("lock", path_, errno);
  }
  if (!S_ISREG(status.st_mode)) {
    throw Error("storage.io",
                "cannot lock " + path_ + ": it is " + std::string(file_kind(status.st_mode)) +
                    ", not a regular file; remove it");
  }
  // Also of a file that an earlier release left, which others may read.
  if (status.st_uid == ::geteuid() && (status.st_mode & ALLPERMS) != mode) {
    (void)!::fchmod(file_.get(), mode);
  }
}

FileLock::State FileLock::try_lock() {
  int error = lock_description(file_.get());
  if (error != 0 && !is_busy(error)) {
    error = ::flock(file_.get(), LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  }
  if (error == 0) {
    return State::kHeld;
  }
  problem_ = std::strerror(error);
  return is_busy(error) ? State::kBusy : State::kUnsupported;
}

bool FileLock::is_at_path() const noexcept {
  struct stat held {};
  struct stat named {};
  return ::fstat(file_.get(), &held) == 0 && ::stat(path_.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

}  // namespace tenon
