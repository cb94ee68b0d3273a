// SPDX-License-Identifier: Apache-2.0

#include "host/checkpoint/run_lock.hpp"

#include "host/error/error.hpp"
#include "host/io/owned_path.hpp"
#include "host/log/log.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <csignal>
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

constexpr std::string_view kProcess = "process ";
// A file system that gives a file another inode with each look would otherwise keep us trying.
constexpr int kMostRemovals = 100;

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
  return formatted("{}{} on {}, since {}", kProcess, ::getpid(), host, time);
}

// Returns the name that the holder has written, or "", with '?' for characters that cannot be
// printed.
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
  return name;
}

std::string holder_text(const std::string& name) {
  return name.empty() ? "a process that has just started" : name;
}

// Writes the holder's name, which is used only in messages. Ignores errors, because the lock is
// valid without a name.
void write_name(int fd, const std::string& name) {
  const std::string line = name + "\n";
  if (::ftruncate(fd, 0) == 0) {
    (void)!::pwrite(fd, line.data(), line.size(), 0);
  }
}

// Earlier releases lock the file with flock(), which the lock of this release does not see. Their
// run counts if its process still exists here; strangers who lock a readable leftover do not count.
// Nor do processes of other users (EPERM): a stranger may have the id of a process that ended.
bool is_held_by_earlier_release(int fd, const std::string& holder) {
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
    return false;
  }
  pid_t process = 0;
  const bool is_named = holder.starts_with(kProcess);
  const char* const first = holder.data() + (is_named ? kProcess.size() : holder.size());
  const auto [end, error] = std::from_chars(first, holder.data() + holder.size(), process);
  return error == std::errc() && process > 0 && process != ::getpid() && ::kill(process, 0) == 0;
}

}  // namespace

RunLock RunLock::take(const std::string& folder, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kPause{50};
  const std::string path = folder + "/" + kFile;
  const auto until = std::chrono::steady_clock::now() + patience;
  for (int num_removals = 0;;) {
    std::optional<FileLock> file;
    try {
      refuse_prepared_folder(folder);
      file.emplace(path);
    } catch (const DiskError& error) {
      fail(path, error.number());
    } catch (const Error& error) {
      throw Error("run.dir_unwritable", error.message());
    }
    FileLock::State state = file->try_lock();
    if (state == FileLock::State::kHeld && !file->is_at_path() && ++num_removals < kMostRemovals) {
      continue;  // the previous holder removed the file before we locked it
    }
    const std::string holder = holder_in(file->file());
    if (state == FileLock::State::kHeld && is_held_by_earlier_release(file->file(), holder)) {
      state = FileLock::State::kBusy;
    }
    if (state != FileLock::State::kBusy) {
      if (state == FileLock::State::kUnsupported) {
        log_warning("this file system has no locks (" + file->problem() +
                    "): two simultaneous runs in " + folder +
                    " are detected only when one of them saves");
      }
      return RunLock(std::move(*file), folder);
    }
    file.reset();
    if (std::chrono::steady_clock::now() >= until) {
      throw Error("run.dir_in_use",
                  "the run folder " + folder + " is in use by " + holder_text(holder) +
                      "; wait until that run ends, or pass another folder with --run-dir");
    }
    std::this_thread::sleep_for(kPause);
  }
}

RunLock::RunLock(FileLock file, std::string folder)
    : file_(std::move(file)), folder_(std::move(folder)), name_(own_name()) {
  struct stat status {};
  if (::stat(folder_.c_str(), &status) == 0) {
    device_ = status.st_dev;
    inode_ = status.st_ino;
  }
  write_name(file_->file(), name_);
}

RunLock& RunLock::operator=(RunLock&& other) noexcept {
  if (this != &other) {
    release();
    file_ = std::exchange(other.file_, std::nullopt);
    folder_ = std::move(other.folder_);
    name_ = std::move(other.name_);
    device_ = other.device_;
    inode_ = other.inode_;
  }
  return *this;
}

// Some file systems give a file another inode after a while, so the name in the file decides then.
std::string RunLock::lost() const {
  const auto is_gone = [] { return errno == ENOENT || errno == ENOTDIR; };
  struct stat status {};
  if (::stat(folder_.c_str(), &status) != 0) {
    return is_gone() ? "it was removed or renamed" : "";
  }
  const bool is_same = status.st_dev == device_ && status.st_ino == inode_;
  const std::string path = folder_ + "/" + kFile;
  const OpenFile now(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!now.is_open() && is_gone()) {
    return is_same ? formatted("its file {} was removed", kFile) : "another folder has its name";
  }
  if (!now.is_open()) {
    return errno == EACCES || errno == ELOOP ? formatted("its file {} was replaced", kFile) : "";
  }
  const std::string holder = holder_in(now.get());
  if (holder == name_ || (holder.empty() && is_same && file_->is_at_path())) {
    return "";
  }
  return holder.empty() ? formatted("its file {} was replaced", kFile)
                        : "it is in use by " + holder;
}

void RunLock::release() noexcept {
  if (file_.has_value() && file_->is_at_path()) {
    ::unlink(file_->path().c_str());
  }
  file_.reset();
}

}  // namespace tenon
