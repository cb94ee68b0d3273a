// SPDX-License-Identifier: Apache-2.0
#include "host/io/durable_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

namespace fs = std::filesystem;

// Bytes written before each start of writeback; large enough for full disk speed.
constexpr uint64_t kWritebackBytes = 8ull << 20;
// Bytes per system call. The system limits a call to about 2 GiB; smaller calls let writeback start
// earlier.
constexpr size_t kWriteBytes = 8ull << 20;

// Opens a file, and retries if a signal interrupts.
OpenFile open_file(const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  } while (fd < 0 && errno == EINTR);
  return OpenFile(fd);
}

int sync_descriptor(int fd) {
  while (::fsync(fd) != 0) {
    if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

void remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    throw_disk_error("remove", path, errno);
  }
}

std::string folder_of(const std::string& path) {
  fs::path full(path);
  if (!full.has_filename()) {  // ends in '/'
    full = full.parent_path();
  }
  const std::string parent = full.parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = other.release();
  }
  return *this;
}

void OpenFile::close() noexcept {
  if (fd_ >= 0) {
    ::close(release());
  }
}

int OpenFile::release() noexcept {
  return std::exchange(fd_, -1);
}

DurableFile DurableFile::create(const std::string& path) {
  OpenFile file = open_file(path, O_WRONLY | O_CREAT | O_EXCL);
  if (!file.is_open()) {
    if (errno == EEXIST) {
      throw Error("storage.exists",
                  path + " already exists; committed files are never overwritten");
    }
    throw_disk_error("create", path, errno);
  }
  return {std::move(file), path};
}

DurableFile::DurableFile(OpenFile file, std::string path)
    : file_(std::move(file)), path_(std::move(path)) {}

void DurableFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file_.get(), bytes.data(), std::min(bytes.size(), kWriteBytes));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      throw_disk_error("write", path_, n == 0 ? EIO : errno);
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
    size_ += static_cast<uint64_t>(n);
    if (size_ - started_ >= kWritebackBytes) {
      start_writeback();
    }
  }
}

void DurableFile::start_writeback() {
  if (can_start_ && ::sync_file_range(file_.get(),
                                      static_cast<off64_t>(started_),
                                      static_cast<off64_t>(size_ - started_),
                                      SYNC_FILE_RANGE_WRITE) != 0) {
    // Some file systems do not support this. Real failures must be reported here, because the later
    // sync may not report them again.
    if (errno == EIO || errno == ENOSPC || errno == EDQUOT) {
      throw_disk_error("write", path_, errno);
    }
    can_start_ = errno == EINTR;
  }
  started_ = size_;
}

void DurableFile::sync() {
  if (const int error = sync_descriptor(file_.get()); error != 0) {
    throw_disk_error("sync", path_, error);
  }
}

std::string_view disk_advice(int error) noexcept {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "free disk space there";
    case EACCES:
    case EPERM:
    case EROFS:
      return "check that it is writable";
    case EIO:
      return "check the system log for disk faults";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files";
    default:
      return "check the disk and the folder";
  }
}

DiskError::DiskError(std::string_view action, const std::string& path, int number)
    : Error("storage.io",
            "cannot " + std::string(action) + " " + path + ": " + std::strerror(number) + "; " +
                std::string(disk_advice(number))),
      number_(number) {}

void throw_disk_error(std::string_view action, const std::string& path, int error) {
  throw DiskError(action, path, error);
}

void sync_folder(const std::string& path) {
  const OpenFile folder = open_file(path, O_RDONLY | O_DIRECTORY);
  if (!folder.is_open()) {
    throw_disk_error("open the folder", path, errno);
  }
  // EINVAL: a file system whose folders do not need or support sync.
  if (const int error = sync_descriptor(folder.get()); error != 0 && error != EINVAL) {
    throw_disk_error("sync the folder", path, error);
  }
}

void rename_path(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    throw_disk_error("rename " + from + " to", to, errno);
  }
}

void replace_file(const std::string& path, std::string_view text, std::string_view suffix) {
  const std::string temporary = path + std::string(suffix);
  remove_file(temporary);
  try {
    DurableFile file = DurableFile::create(temporary);
    file.write(std::as_bytes(std::span(text)));
    file.sync();
    rename_path(temporary, path);
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_folder(folder_of(path));
}

void publish_file(const std::string& from, const std::string& to) {
  const OpenFile file = open_file(from, O_RDONLY | O_NOFOLLOW);
  if (!file.is_open()) {
    throw_disk_error("open", from, errno);
  }
  if (const int error = sync_descriptor(file.get()); error != 0) {
    throw_disk_error("sync", from, error);
  }
  rename_path(from, to);
  sync_folder(folder_of(to));
}

bool make_folders(const std::string& path) {
  const std::string parent = folder_of(path);
  const auto try_make = [&path] { return ::mkdir(path.c_str(), 0777) == 0 ? 0 : errno; };
  int error = try_make();
  // Makes the folder around it at most once: in a folder that was removed, nothing can be created,
  // although "." exists.
  if (error == ENOENT && parent != path && parent != ".") {
    make_folders(parent);
    error = try_make();
  }
  if (error == 0) {
    sync_folder(parent);
    return true;
  }
  std::error_code failed;
  if (error != EEXIST || !fs::is_directory(path, failed)) {
    throw_disk_error("create the folder", path, error);
  }
  return false;
}

void sync_name(const std::string& path) {
  const std::string folder = folder_of(path);
  if (::access(folder.c_str(), R_OK) == 0) {
    sync_folder(folder);
  }
}

}  // namespace tenon
