// SPDX-License-Identifier: Apache-2.0
#include "host/io/regular_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

// Bytes per system call for a file whose size is not known in advance.
constexpr uint64_t kTextChunk = 1 << 16;

std::string not_regular(mode_t mode) {
  return "it is " + std::string(file_kind(mode)) + ", not a regular file";
}

}  // namespace

std::string_view file_kind(mode_t mode) noexcept {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "a regular file";
    case S_IFDIR:
      return "a folder";
    case S_IFIFO:
      return "a FIFO";
    case S_IFSOCK:
      return "a socket";
    case S_IFCHR:
    case S_IFBLK:
      return "a device";
    default:
      return "a special file";
  }
}

RegularFile open_regular_file(const std::string& path) {
  RegularFile result;
  struct stat status = {};
  int fd = -1;
  do {
    // O_NONBLOCK: opening a FIFO without a writer would wait for one.
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  } while (fd < 0 && errno == EINTR);
  OpenFile file(fd);
  if (!file.is_open()) {
    const int reason = errno;
    const bool is_special = reason == ENXIO && ::stat(path.c_str(), &status) == 0;  // a socket
    result.is_missing = reason == ENOENT;
    result.problem = is_special ? not_regular(status.st_mode) : std::strerror(reason);
  } else if (::fstat(file.get(), &status) != 0) {
    result.problem = std::strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    result.problem = not_regular(status.st_mode);
  } else if (const int flags = ::fcntl(file.get(), F_GETFL);
             flags < 0 || ::fcntl(file.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) {
    result.problem = std::strerror(errno);
  } else {
    result.size = static_cast<uint64_t>(status.st_size);
    result.file = std::move(file);
  }
  return result;
}

std::string read_at(const OpenFile& file,
                    uint64_t offset,
                    std::span<std::byte> out,
                    size_t& num_read) {
  num_read = 0;
  while (num_read < out.size()) {
    const ssize_t n = ::pread(file.get(),
                              out.data() + num_read,
                              out.size() - num_read,
                              static_cast<off_t>(offset + num_read));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return std::strerror(errno);
    }
    if (n == 0) {
      break;
    }
    num_read += static_cast<size_t>(n);
  }
  return "";
}

bool write_all(int fd, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      errno = n == 0 ? ENOSPC : errno;
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

FileText read_file_text(const std::string& path, uint64_t max_bytes) {
  FileText result;
  RegularFile opened = open_regular_file(path);
  result.problem = std::move(opened.problem);
  result.is_missing = opened.is_missing;
  if (!opened.file.is_open()) {
    return result;
  }
  result.is_too_large = opened.size > max_bytes;
  // Reads to the end of the file, because files of /proc have content, but the size 0.
  result.text.reserve(std::min(opened.size, max_bytes) + kTextChunk);
  for (size_t num_read = 1; num_read > 0 && result.problem.empty() && !result.is_too_large;) {
    const uint64_t at = result.text.size();
    const uint64_t end = std::min(std::max(opened.size, at + kTextChunk), max_bytes + 1);
    result.text.resize(end);
    const auto out = std::as_writable_bytes(std::span(result.text).subspan(at));
    result.problem = read_at(opened.file, at, out, num_read);
    result.text.resize(at + num_read);
    result.is_too_large = result.text.size() > max_bytes;
  }
  if (!result.problem.empty() || result.is_too_large) {
    result.text.clear();
  }
  return result;
}

}  // namespace tenon
