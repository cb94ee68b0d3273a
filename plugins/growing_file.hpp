// SPDX-License-Identifier: Apache-2.0
//
// A file to which sinks and hooks append whole records. Each record is one system call, so readers
// see whole records and a killed run loses none. Invariant: the file ends with a whole record; a
// partial record of a failed write is truncated.
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
  // `type` is the prefix of error ids: "jsonl" gives "jsonl.io".
  explicit GrowingFile(std::string type) : error_id_(std::move(type) + ".io") {}
  ~GrowingFile() {
    if (file_ >= 0) {
      ::close(file_);
    }
  }
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  enum class IfThere { kAdd, kRefuse };

  // Opens the file, creating it if needed. False if it exists and existing files are not allowed.
  //
  // Errors   TENON_IO if it cannot be opened
  bool open(const std::string& path, IfThere if_there) {
    path_ = path;
    const int exclusive = if_there == IfThere::kRefuse ? O_EXCL : 0;
    struct stat status;
    // A link that another user has made would decide which file grows.
    const bool is_strange_link = ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode) &&
                                 status.st_uid != 0 && status.st_uid != ::geteuid();
    // O_NONBLOCK: a FIFO fails instead of waiting for a reader.
    const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | exclusive;
    file_ = ::open(path.c_str(), is_strange_link ? flags | O_NOFOLLOW : flags, 0666);
    if (file_ < 0 && errno == EEXIST && if_there == IfThere::kRefuse) {
      return false;
    }
    if (file_ < 0 || ::fstat(file_, &status) != 0) {
      fail("cannot open",
           errno == ENXIO   ? "it is a FIFO or a socket, not a regular file"
           : errno == ELOOP ? "it is a link of another user"
                            : std::strerror(errno));
    }
    if (S_ISFIFO(status.st_mode)) {
      fail("cannot open", "it is a FIFO, not a regular file");
    }
    ::fcntl(file_, F_SETFL, flags & ~(O_NONBLOCK | exclusive));  // writing to a terminal may wait
    size_ = status.st_size;
    return true;
  }

  // Errors   TENON_IO if the record could not be written completely, of which nothing remains, or
  //          if the file was removed
  void add(std::string_view record) {
    struct stat status;
    if (::fstat(file_, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 0) {
      fail("cannot write to", "it was removed while it was open");
    }
    size_t done = 0;
    while (done < record.size()) {
      const ssize_t n = ::write(file_, record.data() + done, record.size() - done);
      if (n < 0 && errno == EINTR) {
        continue;
      }
      if (n <= 0) {
        const int reason = n == 0 ? ENOSPC : errno;
        // A partial record would corrupt the next one too. If truncating fails as well, report the
        // first error.
        (void)!::ftruncate(file_, size_);
        errno = reason;
        fail("cannot write to");
      }
      done += static_cast<size_t>(n);
    }
    size_ += static_cast<off_t>(record.size());
  }

  // A line of the file: its offset and its text with line break. A line without a line break is a
  // partial record left by a crash of the machine.
  struct Line {
    off_t begin;
    std::string_view text;
  };

  // Calls `visit` for each line, from the last one backwards, until it returns false. A line is
  // valid during that call. A path that is not a regular file has no lines.
  //
  // Errors  TENON_IO, also for a line of more than kMaxLine bytes: what writes no line breaks, such
  //         as a disk after power loss, has no end that is worth the time and the memory
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
    std::string tail;     // text from `begin` on that was not visited yet
    off_t begin = size_;  // offset of `tail`
    off_t step = kBlock;  // grows within a line: each read moves `tail`
    while (begin > 0 || !tail.empty()) {
      // End of the line before the last one.
      const size_t end = tail.size() < 2 ? std::string::npos : tail.rfind('\n', tail.size() - 2);
      if (end == std::string::npos && begin > 0) {
        if (tail.size() > kMaxLine) {
          TENON_FAIL(TENON_IO,
                     error_id_.c_str(),
                     path_,
                     ": a line has more than ",
                     kMaxLine,
                     " bytes, which nothing here writes; move the file away");
        }
        const auto block = static_cast<size_t>(begin < step ? begin : step);
        step *= 2;
        begin -= static_cast<off_t>(block);
        tail.insert(0, read_at(in.fd, begin, block));
        continue;
      }
      const size_t start = end == std::string::npos ? 0 : end + 1;
      if (!visit(Line{begin + static_cast<off_t>(start), std::string_view(tail).substr(start)})) {
        return;
      }
      tail.resize(start);
      step = kBlock;
    }
  }

  off_t size() const { return size_; }

  // Truncates the file to `size` bytes, atomically for readers.
  //
  // Errors  TENON_IO
  void cut_to(off_t size) {
    if (size != size_ && ::ftruncate(file_, size) != 0) {
      fail("cannot truncate");
    }
    size_ = size;
  }

 private:
  static constexpr off_t kBlock = 65536;
  static constexpr size_t kMaxLine = size_t{32} << 20;

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
        errno = n == 0 ? EIO : errno;  // truncated meanwhile
        fail("cannot read");
      }
      done += static_cast<size_t>(n);
    }
    return block;
  }

  [[noreturn]] void fail(const char* what) const { fail(what, std::strerror(errno)); }
  [[noreturn]] void fail(const char* what, const std::string& reason) const {
    TENON_FAIL(TENON_IO, error_id_.c_str(), what, " ", path_, ": ", reason);
  }

  std::string error_id_;
  std::string path_;
  int file_ = -1;
  off_t size_ = 0;  // end of the last whole record
};
