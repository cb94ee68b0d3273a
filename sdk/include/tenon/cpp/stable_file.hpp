// SPDX-License-Identifier: Apache-2.0
//
// A file that is read during a run and must not change after it was opened, for datasets that read
// samples by file position. It uses `pread`, because a memory-mapped file that is truncated ends
// the process with SIGBUS.
#ifndef TENON_CPP_STABLE_FILE_HPP
#define TENON_CPP_STABLE_FILE_HPP

#include <tenon/cpp/guard.hpp>
#include <tenon/cpp/namespace.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

TENON_NAMESPACE_BEGIN

/* A file opened for reading. Error ids start with the given name: "text.open".
 *
 * Threads  [any], also concurrently, except construction and destruction */
class StableFile {
 public:
  /* Opens a file.
   *
   * Errors   NAME.open: TENON_NOT_FOUND or TENON_IO; NAME.no_file: TENON_INVALID for a folder, a
   *          FIFO or a device, at once */
  StableFile(std::string path, std::string name) : path_(std::move(path)), name_(std::move(name)) {
    descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor_ < 0) {
      const int reason = errno;
      TENON_FAIL(reason == ENOENT ? TENON_NOT_FOUND : TENON_IO,
                 id(".open").c_str(),
                 "cannot open ",
                 path_,
                 ": ",
                 std::strerror(reason));
    }
    try {
      opened_ = status();
      if (!S_ISREG(opened_.st_mode)) {
        TENON_FAIL(TENON_INVALID,
                   id(".no_file").c_str(),
                   path_,
                   " is ",
                   kind(opened_.st_mode),
                   ", not a regular file");
      }
      block();
    } catch (...) {  // a failed constructor does not run the destructor
      ::close(descriptor_);
      throw;
    }
  }
  ~StableFile() { ::close(descriptor_); }
  StableFile(const StableFile&) = delete;
  StableFile& operator=(const StableFile&) = delete;

  const std::string& path() const { return path_; }
  /* Size in bytes when the file was opened. */
  int64_t size() const { return opened_.st_size; }

  /* Reads exactly `n` bytes from `offset`.
   *
   * Errors   NAME.read, NAME.short: TENON_IO, with file and offset
   * Owner    `out` belongs to the caller and holds at least n bytes */
  void read(int64_t offset, size_t n, char* out) const {
    while (n > 0) {
      const ssize_t got = ::pread(descriptor_, out, n, offset);
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got < 0) {
        const int reason = errno;
        TENON_FAIL(TENON_IO,
                   id(".read").c_str(),
                   "cannot read ",
                   path_,
                   " at offset ",
                   offset,
                   ": ",
                   std::strerror(reason));
      }
      if (got == 0) {
        TENON_FAIL(TENON_IO,
                   id(".short").c_str(),
                   path_,
                   " ends at offset ",
                   offset,
                   " (expected ",
                   size(),
                   " bytes, as when the run opened it); do not change it while a run reads it");
      }
      out += got;
      offset += got;
      n -= static_cast<size_t>(got);
    }
  }

  /* Checks that the file has not changed since it was opened. Call it after a read and before using
   * the data; `offset` is the position of that read.
   *
   * Errors   NAME.changed: TENON_IO if the file was modified */
  void check_unchanged(int64_t offset) const {
    const struct stat now = status();
    const bool same = now.st_size == opened_.st_size &&
                      now.st_mtim.tv_sec == opened_.st_mtim.tv_sec &&
                      now.st_mtim.tv_nsec == opened_.st_mtim.tv_nsec;
    if (!same) {
      TENON_FAIL(TENON_IO,
                 id(".changed").c_str(),
                 path_,
                 " was changed after the run opened it (read at offset ",
                 offset,
                 "; ",
                 opened_.st_size,
                 " bytes then, ",
                 now.st_size,
                 " now); do not change it while a run reads it");
    }
  }

 private:
  std::string id(const char* mistake) const { return name_ + mistake; }
  static const char* kind(mode_t mode) {
    return S_ISDIR(mode)                    ? "a folder"
           : S_ISFIFO(mode)                 ? "a FIFO"
           : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
                                            : "a special file";
  }
  /* Clears O_NONBLOCK, which is only for opening: opening a FIFO would wait for a writer. */
  void block() const {
    const int flags = ::fcntl(descriptor_, F_GETFL);
    if (flags < 0 || ::fcntl(descriptor_, F_SETFL, flags & ~O_NONBLOCK) != 0) {
      const int reason = errno;
      TENON_FAIL(TENON_IO, id(".open").c_str(), "cannot open ", path_, ": ", std::strerror(reason));
    }
  }
  struct stat status() const {
    struct stat out;
    if (::fstat(descriptor_, &out) != 0) {
      const int reason = errno;
      TENON_FAIL(
          TENON_IO, id(".read").c_str(), "cannot examine ", path_, ": ", std::strerror(reason));
    }
    return out;
  }

  std::string path_;
  std::string name_;
  int descriptor_ = -1;
  struct stat opened_;
};

TENON_NAMESPACE_END

#endif
