// SPDX-License-Identifier: Apache-2.0
//
// A file that sinks add whole records to. Each record is one call of the system, so that a reader
// sees whole ones and a run that is killed loses none. Invariant: the file ends with a whole
// record; what a failed write has left of one is cut off again.
#pragma once

#include <tenon/cpp/guard.hpp>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

class GrowingFile {
 public:
  // `sink` stands in the ids of errors: "jsonl" gives "jsonl.io".
  explicit GrowingFile(std::string sink) : error_id_(std::move(sink) + ".io") {}
  ~GrowingFile() {
    if (file_ >= 0) {
      ::close(file_);
    }
  }
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  enum class IfThere { kAdd, kRefuse };

  // Opens the file, which is made where there is none. False if it is there and that is refused.
  //
  // Errors  TENON_IO where it cannot be opened
  bool open(const std::string& path, IfThere if_there) {
    path_ = path;
    const int exclusive = if_there == IfThere::kRefuse ? O_EXCL : 0;
    file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | exclusive, 0666);
    if (file_ < 0 && errno == EEXIST && if_there == IfThere::kRefuse) {
      return false;
    }
    struct stat status;
    if (file_ < 0 || ::fstat(file_, &status) != 0) {
      fail("cannot open");
    }
    size_ = status.st_size;
    return true;
  }

  // Errors  TENON_IO where the record could not be written whole; nothing of it stays
  void add(std::string_view record) {
    size_t done = 0;
    while (done < record.size()) {
      const ssize_t n = ::write(file_, record.data() + done, record.size() - done);
      if (n < 0 && errno == EINTR) {
        continue;
      }
      if (n < 0) {
        const int reason = errno;
        // Half a record would spoil the next one too. If even this fails, the first reason is the
        // one to tell.
        (void)!::ftruncate(file_, size_);
        errno = reason;
        fail("cannot write to");
      }
      done += static_cast<size_t>(n);
    }
    size_ += static_cast<off_t>(record.size());
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    const std::string reason = std::strerror(errno);
    TENON_FAIL(TENON_IO, error_id_.c_str(), what, " ", path_, ": ", reason);
  }

  std::string error_id_;
  std::string path_;
  int file_ = -1;
  off_t size_ = 0;  // up to the end of the last whole record
};
