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

  // A line of the file: where it begins, and its text with its line break. One without is the half
  // of a record that the machine's end has left.
  struct Line {
    off_t begin;
    std::string_view text;
  };

  // Tells `visit` of each line, from the last one on, until it says false. A line lives as long as
  // that call. A `path` that is no file but a device, say, has none.
  //
  // Errors  TENON_IO
  template <class Visit>
  void visit_lines_from_end(Visit visit) const {
    struct stat status;
    if (::fstat(file_, &status) != 0) {
      fail("cannot read");
    }
    if (!S_ISREG(status.st_mode)) {
      return;
    }
    const ReadEnd in(path_);
    if (in.fd < 0) {
      fail("cannot read");
    }
    std::string tail;     // what is from `begin` on and was not visited yet
    off_t begin = size_;  // of what was read
    while (begin > 0 || !tail.empty()) {
      // Where the line before the last one ends.
      const size_t end = tail.size() < 2 ? std::string::npos : tail.rfind('\n', tail.size() - 2);
      if (end == std::string::npos && begin > 0) {
        const auto block = static_cast<size_t>(begin < kBlock ? begin : kBlock);
        begin -= static_cast<off_t>(block);
        tail.insert(0, read_at(in.fd, begin, block));
        continue;
      }
      const size_t start = end == std::string::npos ? 0 : end + 1;
      if (!visit(Line{begin + static_cast<off_t>(start), std::string_view(tail).substr(start)})) {
        return;
      }
      tail.resize(start);
    }
  }

  off_t size() const { return size_; }

  // What is behind the first `size` bytes is no longer there: all at once, also for a reader.
  //
  // Errors  TENON_IO
  void cut_to(off_t size) {
    if (size != size_ && ::ftruncate(file_, size) != 0) {
      fail("cannot cut");
    }
    size_ = size;
  }

 private:
  static constexpr off_t kBlock = 65536;

  struct ReadEnd {
    explicit ReadEnd(const std::string& path) : fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
    ~ReadEnd() {
      if (fd >= 0) {
        ::close(fd);
      }
    }
    ReadEnd(const ReadEnd&) = delete;
    ReadEnd& operator=(const ReadEnd&) = delete;
    const int fd;
  };

  std::string read_at(int fd, off_t at, size_t size) const {
    std::string block(size, '\0');
    size_t done = 0;
    while (done < size) {
      const ssize_t n =
          ::pread(fd, block.data() + done, size - done, at + static_cast<off_t>(done));
      if (n < 0 && errno == EINTR) {
        continue;
      }
      if (n <= 0) {
        errno = n == 0 ? EIO : errno;  // it has become shorter meanwhile
        fail("cannot read");
      }
      done += static_cast<size_t>(n);
    }
    return block;
  }

  [[noreturn]] void fail(const char* what) const {
    const std::string reason = std::strerror(errno);
    TENON_FAIL(TENON_IO, error_id_.c_str(), what, " ", path_, ": ", reason);
  }

  std::string error_id_;
  std::string path_;
  int file_ = -1;
  off_t size_ = 0;  // up to the end of the last whole record
};
