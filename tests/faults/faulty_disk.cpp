// SPDX-License-Identifier: Apache-2.0
//
// A disk that fails, as a library to put before any program: LD_PRELOAD=.../libfaulty_disk.so, and
// in the environment:
//
//   TENON_FAULT_PATH   a part of the paths that are meant, made absolute: "/checkpoints/". Needed.
//   TENON_FAULT_CALLS  which calls, with commas: open write writeback sync rename unlink mkdir
//   read.
//                      Not set: all but read. `open` is for writing, or of a folder; `unlink` is
//                      also rmdir; `writeback` is sync_file_range
//   TENON_FAULT_NTH    1 for the first of these calls of a process, and so on; 7+ for the seventh
//                      and all after it; not set: each of them
//   TENON_FAULT_RANK   only in the process whose variable RANK is this; not set: in all
//   TENON_FAULT_DO     EIO, ENOSPC, EDQUOT, EACCES, EROFS   the call fails, without effect
//                      short      a write writes half of what it was given; other calls go on
//                      full:N     writes beyond N bytes in all fail with ENOSPC, as on a full disk
//                      delay:N    the call takes N milliseconds longer
//                      crash      the process is killed instead of the call (SIGKILL)
//                      power      as crash, and what was not synced is lost, as far as this process
//                                 made it: bytes of files, and names made, renamed and removed in
//                                 folders. The process is to be alone in that path
//                      not set    nothing
//   TENON_FAULT_LOG    a file that each of these calls is added to, as "kind path": to count them
//   TENON_FAULT_CLOCK  at each look at the time of day it is so many seconds earlier than at the
//                      last, or later where the number is negative, wherever TENON_FAULT_PATH is
//
// Not seen is what the C library calls within itself (fwrite, fclose), io_uring, and mapped memory.
// Threads: any.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace {

// The next function of that name: the C library's.
template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

std::string text_from(const char* variable) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? text : "";
}

// "" where the path cannot be told.
std::string path_of(int fd) {
  char target[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t n = ::readlink(link.c_str(), target, sizeof target);
  return n > 0 ? std::string(target, static_cast<size_t>(n)) : "";
}

std::string path_of(int folder, const char* path) {
  if (path == nullptr || path[0] == '/') {
    return path != nullptr ? path : "";
  }
  if (folder != AT_FDCWD) {
    return path_of(folder) + "/" + path;
  }
  char current[PATH_MAX];
  return ::getcwd(current, sizeof current) != nullptr ? std::string(current) + "/" + path : path;
}

std::string parent_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

bool is_there(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

// What was done and is not yet sure to survive loss of power, so that it can be undone.
// Used only where TENON_FAULT_DO is "power".
class UnsyncedWork {
 public:
  void made(const std::string& path) { changes_.push_back({Kind::kMade, path, {}, {}}); }
  void removed(const std::string& path, std::optional<std::string> content) {
    changes_.push_back({Kind::kRemoved, path, {}, std::move(content)});
  }
  void renamed(const std::string& from,
               const std::string& to,
               std::optional<std::string> replaced) {
    follow(from, to);
    changes_.push_back({Kind::kRenamed, to, from, std::move(replaced)});
  }
  void written(const std::string& path) { sizes_.try_emplace(path, 0); }
  void truncated(const std::string& path) { sizes_[path] = 0; }

  void synced(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode)) {
      sizes_[path] = status.st_size;
    }
    std::erase_if(changes_, [&](const Change& change) {
      return parent_of(change.path) == path &&
             (change.from.empty() || parent_of(change.from) == path);
    });
  }

  void undo() {
    for (const auto& [path, size] : sizes_) {
      static_cast<void>(::truncate(path.c_str(), size));
    }
    for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
      switch (change->kind) {
        case Kind::kMade:
          remove_all(change->path);
          break;
        case Kind::kRemoved:
          put_back(change->path, change->content);
          break;
        case Kind::kRenamed: {
          const Change done = *change;  // follow() changes what is remembered
          real<int(const char*, const char*)>("rename")(done.path.c_str(), done.from.c_str());
          follow(done.path, done.from);
          if (done.content) {
            put_back(done.path, done.content);
          }
          break;
        }
      }
    }
  }

  // Of a small file: what undoing its removal needs. None for a folder.
  static std::optional<std::string> content_of(const std::string& path) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
      return std::nullopt;
    }
    std::string text(static_cast<size_t>(status.st_size), '\0');
    const int fd = real<int(const char*, int, ...)>("open")(path.c_str(), O_RDONLY | O_CLOEXEC);
    const ssize_t n = real<ssize_t(int, void*, size_t)>("read")(fd, text.data(), text.size());
    ::close(fd);
    text.resize(static_cast<size_t>(std::max<ssize_t>(n, 0)));
    return text;
  }

 private:
  enum class Kind { kMade, kRemoved, kRenamed };
  struct Change {
    Kind kind;
    std::string path;
    std::string from;
    std::optional<std::string> content;
  };

  // All that is remembered below `from` is now below `to`.
  void follow(const std::string& from, const std::string& to) {
    const auto moved = [&](std::string& path) {
      if (path == from || path.starts_with(from + "/")) {
        path.replace(0, from.size(), to);
      }
    };
    for (Change& change : changes_) {
      moved(change.path);
      moved(change.from);
    }
    std::map<std::string, off_t> sizes;
    for (const auto& [path, size] : sizes_) {
      std::string now = path;
      moved(now);
      sizes[now] = size;
    }
    sizes_ = std::move(sizes);
  }

  static void put_back(const std::string& path, const std::optional<std::string>& content) {
    if (!content) {
      real<int(const char*, mode_t)>("mkdir")(path.c_str(), 0777);
      return;
    }
    const int fd = real<int(const char*, int, ...)>("open")(
        path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    static_cast<void>(
        real<ssize_t(int, const void*, size_t)>("write")(fd, content->data(), content->size()));
    ::close(fd);
  }

  // In a process of its own, without this library: the process is about to be killed anyway.
  static void remove_all(const std::string& path) {
    ::unsetenv("LD_PRELOAD");
    static_cast<void>(std::system(("rm -rf '" + path + "'").c_str()));
  }

  std::vector<Change> changes_;
  std::map<std::string, off_t> sizes_;  // of files that were written: so much of each is synced
};

class FaultyDisk {
 public:
  static FaultyDisk& instance() {
    static auto* const disk = new FaultyDisk;  // calls come until the very end of the process
    return *disk;
  }

  bool is_on() const { return is_on_; }
  bool is_meant(const std::string& path) const { return is_on_ && path.find(path_) != path.npos; }
  bool loses_power() const { return what_ == "power"; }

  struct Verdict {
    int error = 0;
    size_t bytes = 0;  // how many to write
  };

  // Before each call that is seen. May not return.
  Verdict before(std::string_view kind, const std::string& path, size_t bytes = 0) {
    if (!is_meant(path) || !has_kind(kind)) {
      return {0, bytes};
    }
    const std::lock_guard lock(mutex_);
    note(kind, path);
    if (what_.starts_with("full:") && kind == "write") {
      const uint64_t room = number_ - std::min(number_, written_);
      const uint64_t fits = std::min<uint64_t>(room, bytes);
      written_ += fits;
      return {fits == 0 && bytes != 0 ? ENOSPC : 0, fits};
    }
    ++count_;
    if (is_from_on_ ? count_ < nth_ : count_ != nth_ && nth_ != 0) {
      return {0, bytes};
    }
    if (what_ == "crash" || what_ == "power") {
      if (what_ == "power") {
        work_.undo();
      }
      ::raise(SIGKILL);
    }
    if (what_.starts_with("delay:")) {
      const timespec wait{static_cast<time_t>(number_ / 1000),
                          static_cast<long>(number_ % 1000) * 1'000'000};
      ::nanosleep(&wait, nullptr);
    }
    return {error_, what_ == "short" ? bytes - bytes / 2 : bytes};
  }

  template <class Body>
  void after(const std::string& path, Body&& body) {
    if (loses_power() && is_meant(path)) {
      const std::lock_guard lock(mutex_);
      const int error = errno;
      body(work_);
      errno = error;
    }
  }

 private:
  FaultyDisk()
      : path_(text_from("TENON_FAULT_PATH")),
        kinds_("," + text_from("TENON_FAULT_CALLS") + ","),
        what_(text_from("TENON_FAULT_DO")),
        log_(text_from("TENON_FAULT_LOG")) {
    const std::string rank = text_from("TENON_FAULT_RANK");
    is_on_ = !path_.empty() && (rank.empty() || rank == text_from("RANK"));
    const std::string nth = text_from("TENON_FAULT_NTH");
    nth_ = std::strtoull(nth.c_str(), nullptr, 10);
    is_from_on_ = nth.ends_with('+');
    if (const size_t colon = what_.find(':'); colon != what_.npos) {
      number_ = std::strtoull(what_.c_str() + colon + 1, nullptr, 10);
    }
    constexpr std::pair<std::string_view, int> kErrors[] = {
        {"EIO", EIO}, {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EACCES", EACCES}, {"EROFS", EROFS}};
    for (const auto& [name, error] : kErrors) {
      error_ = what_ == name ? error : error_;
    }
  }

  bool has_kind(std::string_view kind) const {
    return kinds_ == ",," ? kind != "read"
                          : kinds_.find("," + std::string(kind) + ",") != kinds_.npos;
  }

  void note(std::string_view kind, const std::string& path) const {
    if (log_.empty()) {
      return;
    }
    const int fd = real<int(const char*, int, ...)>("open")(
        log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    const std::string line = std::string(kind) + " " + path + "\n";
    static_cast<void>(
        real<ssize_t(int, const void*, size_t)>("write")(fd, line.data(), line.size()));
    ::close(fd);
  }

  std::string path_;
  std::string kinds_;
  std::string what_;
  std::string log_;
  bool is_on_ = false;
  bool is_from_on_ = false;
  uint64_t nth_ = 0;
  uint64_t number_ = 0;
  int error_ = 0;

  std::mutex mutex_;
  uint64_t count_ = 0;
  uint64_t written_ = 0;
  UnsyncedWork work_;
};

FaultyDisk& disk() {
  return FaultyDisk::instance();
}

// Of a file that is open; "" where no path is meant, to spare the program the look.
std::string meant_path(int fd) {
  return disk().is_on() ? path_of(fd) : "";
}

// Fails as the call would, or makes it.
template <class Body>
auto unless(int error, Body&& body) -> decltype(body()) {
  if (error != 0) {
    errno = error;
    return -1;
  }
  return body();
}

template <class Body>
int open_any(const std::string& path, int flags, Body&& body) {
  const bool is_seen = (flags & O_ACCMODE) != O_RDONLY || (flags & O_DIRECTORY) != 0;
  const bool was_there = is_there(path);
  const int fd = unless(is_seen ? disk().before("open", path).error : 0, body);
  if (fd >= 0 && is_seen) {
    disk().after(path, [&](UnsyncedWork& work) {
      if (!was_there) {
        work.made(path);
      }
      if ((flags & O_TRUNC) != 0) {
        work.truncated(path);
      }
    });
  }
  return fd;
}

template <class Body>
ssize_t write_any(int fd, size_t size, Body&& body) {
  const std::string path = meant_path(fd);
  const FaultyDisk::Verdict verdict = disk().before("write", path, size);
  const ssize_t n = unless(verdict.error, [&] { return body(verdict.bytes); });
  disk().after(path, [&](UnsyncedWork& work) { work.written(path); });
  return n;
}

template <class Body>
int sync_any(int fd, Body&& body) {
  const std::string path = meant_path(fd);
  const int result = unless(disk().before("sync", path).error, body);
  if (result == 0) {
    disk().after(path, [&](UnsyncedWork& work) { work.synced(path); });
  }
  return result;
}

template <class Body>
int rename_any(const std::string& from, const std::string& to, Body&& body) {
  std::optional<std::string> replaced;
  disk().after(to, [&](UnsyncedWork&) { replaced = UnsyncedWork::content_of(to); });
  const int result = unless(disk().before("rename", to).error, body);
  if (result == 0) {
    disk().after(to, [&](UnsyncedWork& work) { work.renamed(from, to, std::move(replaced)); });
  }
  return result;
}

template <class Body>
int remove_any(const std::string& path, Body&& body) {
  std::optional<std::string> content;
  disk().after(path, [&](UnsyncedWork&) { content = UnsyncedWork::content_of(path); });
  const int result = unless(disk().before("unlink", path).error, body);
  if (result == 0) {
    disk().after(path, [&](UnsyncedWork& work) { work.removed(path, std::move(content)); });
  }
  return result;
}

template <class Body>
int make_folder_any(const std::string& path, Body&& body) {
  const int result = unless(disk().before("mkdir", path).error, body);
  if (result == 0) {
    disk().after(path, [&](UnsyncedWork& work) { work.made(path); });
  }
  return result;
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

// The C library's headers may give these names attributes and macros of their own: they are
// declared here as the linker knows them.
#define TENON_SEEN extern "C" __attribute__((visibility("default")))

#define TENON_OPEN(name)                                                 \
  TENON_SEEN int name(const char* path, int flags, ...) {                \
    va_list arguments;                                                   \
    va_start(arguments, flags);                                          \
    const mode_t mode = mode_of(flags, arguments);                       \
    va_end(arguments);                                                   \
    return open_any(path_of(AT_FDCWD, path), flags, [&] {                \
      return real<int(const char*, int, ...)>(#name)(path, flags, mode); \
    });                                                                  \
  }
TENON_OPEN(open)
TENON_OPEN(open64)

#define TENON_OPENAT(name)                                                            \
  TENON_SEEN int name(int folder, const char* path, int flags, ...) {                 \
    va_list arguments;                                                                \
    va_start(arguments, flags);                                                       \
    const mode_t mode = mode_of(flags, arguments);                                    \
    va_end(arguments);                                                                \
    return open_any(path_of(folder, path), flags, [&] {                               \
      return real<int(int, const char*, int, ...)>(#name)(folder, path, flags, mode); \
    });                                                                               \
  }
TENON_OPENAT(openat)
TENON_OPENAT(openat64)

#define TENON_FOPEN(name)                                                                      \
  TENON_SEEN FILE* name(const char* path, const char* mode) {                                  \
    const int flags = mode[0] == 'r' && std::strchr(mode, '+') == nullptr ? O_RDONLY           \
                      : mode[0] == 'w'                                    ? O_WRONLY | O_TRUNC \
                                                                          : O_WRONLY;                                             \
    FILE* file = nullptr;                                                                      \
    open_any(path_of(AT_FDCWD, path), flags, [&] {                                             \
      file = real<FILE*(const char*, const char*)>(#name)(path, mode);                         \
      return file != nullptr ? 0 : -1;                                                         \
    });                                                                                        \
    return file;                                                                               \
  }
TENON_FOPEN(fopen)
TENON_FOPEN(fopen64)

TENON_SEEN ssize_t write(int fd, const void* data, size_t size) {
  return write_any(fd, size, [&](size_t bytes) {
    return real<ssize_t(int, const void*, size_t)>("write")(fd, data, bytes);
  });
}

#define TENON_PWRITE(name)                                                                   \
  TENON_SEEN ssize_t name(int fd, const void* data, size_t size, off_t offset) {             \
    return write_any(fd, size, [&](size_t bytes) {                                           \
      return real<ssize_t(int, const void*, size_t, off_t)>(#name)(fd, data, bytes, offset); \
    });                                                                                      \
  }
TENON_PWRITE(pwrite)
TENON_PWRITE(pwrite64)

TENON_SEEN ssize_t read(int fd, void* data, size_t size) {
  return unless(disk().before("read", meant_path(fd)).error,
                [&] { return real<ssize_t(int, void*, size_t)>("read")(fd, data, size); });
}

#define TENON_PREAD(name)                                                             \
  TENON_SEEN ssize_t name(int fd, void* data, size_t size, off_t offset) {            \
    return unless(disk().before("read", meant_path(fd)).error, [&] {                  \
      return real<ssize_t(int, void*, size_t, off_t)>(#name)(fd, data, size, offset); \
    });                                                                               \
  }
TENON_PREAD(pread)
TENON_PREAD(pread64)

// How far the time of day has gone back by now.
static long seconds_back() {
  static const long step = std::strtol(text_from("TENON_FAULT_CLOCK").c_str(), nullptr, 10);
  static std::atomic<long> back = 0;
  return step != 0 ? back += step : 0;
}

TENON_SEEN int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = real<int(clockid_t, timespec*)>("clock_gettime")(clock, time);
  if (result == 0 && clock == CLOCK_REALTIME) {
    time->tv_sec -= seconds_back();
  }
  return result;
}

TENON_SEEN time_t time(time_t* out) noexcept {
  const time_t now = real<time_t(time_t*)>("time")(nullptr) - seconds_back();
  if (out != nullptr) {
    *out = now;
  }
  return now;
}

TENON_SEEN int fsync(int fd) {
  return sync_any(fd, [&] { return real<int(int)>("fsync")(fd); });
}

TENON_SEEN int fdatasync(int fd) {
  return sync_any(fd, [&] { return real<int(int)>("fdatasync")(fd); });
}

TENON_SEEN int sync_file_range(int fd, off64_t offset, off64_t size, unsigned int flags) {
  return unless(disk().before("writeback", meant_path(fd)).error, [&] {
    return real<int(int, off64_t, off64_t, unsigned int)>("sync_file_range")(
        fd, offset, size, flags);
  });
}

TENON_SEEN int rename(const char* from, const char* to) noexcept {
  return rename_any(path_of(AT_FDCWD, from), path_of(AT_FDCWD, to), [&] {
    return real<int(const char*, const char*)>("rename")(from, to);
  });
}

TENON_SEEN int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  return rename_any(path_of(from_folder, from), path_of(to_folder, to), [&] {
    return real<int(int, const char*, int, const char*)>("renameat")(
        from_folder, from, to_folder, to);
  });
}

TENON_SEEN int unlink(const char* path) noexcept {
  return remove_any(path_of(AT_FDCWD, path),
                    [&] { return real<int(const char*)>("unlink")(path); });
}

TENON_SEEN int unlinkat(int folder, const char* path, int flags) noexcept {
  return remove_any(path_of(folder, path), [&] {
    return real<int(int, const char*, int)>("unlinkat")(folder, path, flags);
  });
}

TENON_SEEN int rmdir(const char* path) noexcept {
  return remove_any(path_of(AT_FDCWD, path), [&] { return real<int(const char*)>("rmdir")(path); });
}

TENON_SEEN int remove(const char* path) noexcept {
  return remove_any(path_of(AT_FDCWD, path),
                    [&] { return real<int(const char*)>("remove")(path); });
}

TENON_SEEN int mkdir(const char* path, mode_t mode) noexcept {
  return make_folder_any(path_of(AT_FDCWD, path),
                         [&] { return real<int(const char*, mode_t)>("mkdir")(path, mode); });
}

TENON_SEEN int mkdirat(int folder, const char* path, mode_t mode) noexcept {
  return make_folder_any(path_of(folder, path), [&] {
    return real<int(int, const char*, mode_t)>("mkdirat")(folder, path, mode);
  });
}
