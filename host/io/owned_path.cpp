// SPDX-License-Identifier: Apache-2.0
#include "host/io/owned_path.hpp"

#include "host/error/error.hpp"

#include <filesystem>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace tenon {
namespace {

namespace fs = std::filesystem;

bool is_trusted(uid_t user) {
  return user == 0 || user == ::geteuid();
}

// True for a folder such as /tmp: anybody may create files in it, and only owners may remove them.
bool is_shared_folder(const struct stat& folder) {
  return (folder.st_mode & S_ISVTX) != 0 && (folder.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

[[noreturn]] void refuse(const std::string& path, const std::string& what, uid_t user) {
  throw Error("storage.io",
              path + " is " + what + " of another user (uid " + std::to_string(user) +
                  "), who decides where its files are; use a folder of your own");
}

}  // namespace

void refuse_prepared_folder(const std::string& folder) {
  fs::path path(folder);
  if (!path.has_filename()) {  // ends in '/'
    path = path.parent_path();
  }
  struct stat own {};
  struct stat around {};
  if (::lstat(path.c_str(), &own) != 0) {
    return;  // whoever opens it reports that
  }
  const fs::path parent = path.parent_path();
  if (::stat(parent.empty() ? "." : parent.c_str(), &around) == 0 && is_shared_folder(around) &&
      !is_trusted(own.st_uid) && own.st_uid != around.st_uid) {
    refuse(path.string(), S_ISLNK(own.st_mode) ? "a link" : "a folder", own.st_uid);
  }
  if (::stat(path.c_str(), &own) != 0 ||
      (is_trusted(own.st_uid) && (own.st_mode & (S_IWGRP | S_IWOTH)) == 0)) {
    return;
  }
  std::error_code failed;
  for (fs::directory_iterator at(path, failed), end; !failed && at != end; at.increment(failed)) {
    struct stat entry {};
    if (::lstat(at->path().c_str(), &entry) != 0) {
      continue;
    }
    if (S_ISLNK(entry.st_mode) && !is_trusted(entry.st_uid)) {
      refuse(at->path().string(), "a link", entry.st_uid);
    }
    // A second name of a file elsewhere; the owner of the folder may have made it.
    if (S_ISREG(entry.st_mode) && entry.st_nlink > 1 && !is_trusted(own.st_uid)) {
      refuse(at->path().string(), "a second name of a file, in a folder", own.st_uid);
    }
  }
}

}  // namespace tenon
