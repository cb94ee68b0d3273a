// SPDX-License-Identifier: Apache-2.0

#include "host/checkpoint/run_lock.hpp"

#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

[[noreturn]] void fail(const std::string& path, int reason) {
  throw Error("run.dir_unwritable",
              "cannot lock " + path + ": " + std::strerror(reason) +
                  "; choose another folder with --run-dir");
}

std::string own_name() {
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') {
    std::strcpy(host, "localhost");
  }
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char time[32];
  std::strftime(time, sizeof time, "%Y-%m-%d %H:%M:%S UTC", &utc);
  return formatted("process {} on {}, since {}", ::getpid(), host, time);
}

// Returns the name that the holder has written, with '?' for characters that cannot be printed.
std::string holder_in(int fd) {
  char text[400];
  const ssize_t size = ::pread(fd, text, sizeof text, 0);
  std::string name;
  for (const char c : std::string_view(text, size > 0 ? static_cast<size_t>(size) : 0)) {
    if (c == '\n') {
      break;
    }
    name += std::isprint(static_cast<unsigned char>(c)) != 0 ? c : '?';
  }
  return name.empty() ? "a process that has just started" : name;
}

// Writes the holder's name, which is used only in messages. Ignores errors, because the lock is
// valid without a name.
void write_name(int fd) noexcept {
  try {
    const std::string name = own_name() + "\n";
    if (::ftruncate(fd, 0) == 0) {
      (void)!::pwrite(fd, name.data(), name.size(), 0);
    }
  } catch (const std::exception&) {  // out of memory
  }
}

bool is_named(int fd, const std::string& path) noexcept {
  struct stat held;
  struct stat named;
  return ::fstat(fd, &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

int lock_now(int fd) {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

std::optional<RunLock> RunLock::take(const std::string& folder,
                                     std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kPause{50};
  const std::string path = folder + "/" + kFile;
  const auto until = std::chrono::steady_clock::now() + patience;
  while (true) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) {
      fail(path, errno);
    }
    const int refused = lock_now(fd);
    if (refused == 0 && is_named(fd, path)) {
      write_name(fd);
      return RunLock(fd, path);
    }
    if (refused == 0) {  // the previous holder removed the file before we locked it
      ::close(fd);
      continue;
    }
    const std::string holder = refused == EWOULDBLOCK ? holder_in(fd) : "";
    ::close(fd);
    if (refused != EWOULDBLOCK) {
      log_warning("this file system has no locks (" + std::string(std::strerror(refused)) +
                  "): two simultaneous runs in " + folder + " would not be detected");
      return std::nullopt;
    }
    if (std::chrono::steady_clock::now() >= until) {
      throw Error("run.dir_in_use",
                  "the run folder " + folder + " is in use by " + holder +
                      "; wait until that run ends, or pass another folder with --run-dir");
    }
    std::this_thread::sleep_for(kPause);
  }
}

RunLock::RunLock(RunLock&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

RunLock& RunLock::operator=(RunLock&& other) noexcept {
  if (this != &other) {
    release();
    fd_ = std::exchange(other.fd_, -1);
    path_ = std::move(other.path_);
  }
  return *this;
}

void RunLock::release() noexcept {
  if (fd_ >= 0) {
    if (is_named(fd_, path_)) {
      ::unlink(path_.c_str());
    }
    ::close(fd_);
    fd_ = -1;
  }
}

}  // namespace tenon
