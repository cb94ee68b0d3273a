// SPDX-License-Identifier: Apache-2.0
#include "host/trust/write_access.hpp"

#include "host/text/formatted.hpp"

#include <filesystem>
#include <optional>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace tenon {
namespace {

namespace fs = std::filesystem;

enum class PathPart {
  kPlugins,  // the file, or the folder that holds it
  kAround    // a folder around that one
};

// "0664".
std::string mode_text(mode_t mode) {
  std::string text;
  for (int shift = 9; shift >= 0; shift -= 3) {
    text += static_cast<char>('0' + ((mode >> shift) & 7));
  }
  return text;
}

std::optional<struct stat> status_of(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? std::optional(status) : std::nullopt;
}

WriteAccess access_of(const std::string& path, PathPart part) {
  const std::optional<struct stat> status = status_of(path);
  WriteAccess access;
  if (!status) {
    return access;
  }
  const mode_t mode = status->st_mode;
  const bool keeps_entries = part == PathPart::kAround && (mode & S_ISVTX) != 0;
  if ((mode & S_IWOTH) != 0 && !keeps_entries) {
    access.by_all = formatted("{} is writable by all users (mode {})", path, mode_text(mode));
    access.advice = "run chmod o-w " + path;
  }
  if (part == PathPart::kAround) {
    return access;  // folders of groups and of other users are too common to name
  }
  if (status->st_uid != 0 && status->st_uid != ::geteuid()) {
    access.by_some = formatted("{} belongs to user {}", path, status->st_uid);
  } else if ((mode & S_IWGRP) != 0) {
    access.by_some = formatted(
        "{} is writable by its group {} (mode {})", path, status->st_gid, mode_text(mode));
  }
  return access;
}

// Adds the first folder around `path`, which is canonical, that all users can change.
void add_folders_around(const fs::path& path, WriteAccess& access) {
  for (fs::path at = path; access.by_all.empty() && at != at.parent_path();) {
    at = at.parent_path();
    const WriteAccess around = access_of(at.string(), PathPart::kAround);
    access.by_all = around.by_all;
    access.advice = around.advice;
  }
}

}  // namespace

WriteAccess write_access_of_folder(const std::string& folder) {
  WriteAccess access = access_of(folder, PathPart::kPlugins);
  std::error_code failed;
  const fs::path path = fs::canonical(folder, failed);
  if (!failed) {
    add_folders_around(path, access);
  }
  return access;
}

WriteAccess write_access_around(const std::string& file) {
  WriteAccess access;
  std::error_code failed;
  const fs::path written = fs::absolute(file, failed);
  const fs::path folder = fs::canonical(written.parent_path(), failed);
  if (!failed) {
    add_folders_around(folder / written.filename(), access);
  }
  const fs::path target = fs::canonical(file, failed);
  if (!failed) {
    add_folders_around(target, access);
  }
  return access;
}

WriteAccess write_access_of_file(const std::string& path) {
  WriteAccess access = access_of(path, PathPart::kPlugins);
  std::error_code failed;
  if (!access.by_all.empty() || !fs::is_symlink(path, failed)) {
    return access;
  }
  const fs::path target = fs::canonical(path, failed);
  if (failed) {
    return access;
  }
  const WriteAccess folder = write_access_of_folder(target.parent_path().string());
  access.by_all = folder.by_all;
  access.advice = folder.advice;
  if (access.by_some.empty()) {
    access.by_some = folder.by_some;
  }
  return access;
}

}  // namespace tenon
