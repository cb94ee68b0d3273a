// SPDX-License-Identifier: Apache-2.0
#include "host/io/export_target.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <random>
#include <unistd.h>

namespace tenon {
namespace {

namespace fs = std::filesystem;

std::string next_to(const fs::path& path, const std::string& ending) {
  return (path.parent_path() / ("." + path.filename().string() + ending)).string();
}

std::string random_digits() {
  std::random_device device;
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%08x%08x", unsigned{device()}, unsigned{device()});
  return digits.data();
}

}  // namespace

ExportTarget::ExportTarget(const std::string& path) {
  fs::path full = fs::absolute(path).lexically_normal();
  if (!full.has_filename()) {
    full = full.parent_path();
  }
  path_ = full.string();
  lock_path_ = next_to(full, ".tenon-lock");
  lock();
  do {
    temporary_ = next_to(full, "." + random_digits() + ".tmp");
  } while (::access(temporary_.c_str(), F_OK) == 0);
}

void ExportTarget::lock() {
  // Whoever finishes removes its lock file, so a file that was opened may have no name any more.
  constexpr int kMostTries = 100;
  for (int i = 0; i < kMostTries; ++i) {
    is_lock_own_ = ::access(lock_path_.c_str(), F_OK) != 0;
    lock_.emplace(lock_path_);
    const FileLock::State state = lock_->try_lock();
    if (state == FileLock::State::kBusy) {
      is_lock_own_ = false;
      throw Error("export.in_use",
                  path_ + ": another process writes to it; wait for its end, or pass another path");
    }
    // Without locks in the file system, the temporary name still keeps two exports apart.
    if (state == FileLock::State::kUnsupported || lock_->is_at_path()) {
      return;
    }
  }
  throw_disk_error("lock", lock_path_, EAGAIN);
}

ExportTarget::~ExportTarget() {
  if (is_lock_own_) {
    ::unlink(lock_path_.c_str());
  }
}

void ExportTarget::publish_new_file() const {
  // A hard link fails if the name exists, unlike a rename.
  if (::link(temporary_.c_str(), path_.c_str()) == 0) {
    ::unlink(temporary_.c_str());
  } else if (errno == EEXIST) {
    throw Error("storage.exists", path_ + " already exists; it was created during the export");
  } else if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) !=
             0) {
    // File systems without hard links
    throw_disk_error("rename " + temporary_ + " to", path_, errno);
  }
  sync_folder(fs::path(path_).parent_path().string());
}

}  // namespace tenon
