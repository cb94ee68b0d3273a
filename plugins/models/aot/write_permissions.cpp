// SPDX-License-Identifier: Apache-2.0
#include "write_permissions.hpp"

#include <tenon/cpp/guard.hpp>

#include <cstdlib>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>

namespace {

namespace fs = std::filesystem;

enum class Entries { kProtectedBySticky, kOpen };

void check_path(const fs::path& path, Entries entries) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || (status.st_mode & S_IWOTH) == 0) {
    return;
  }
  if (entries == Entries::kProtectedBySticky && (status.st_mode & S_ISVTX) != 0) {
    return;
  }
  TENON_FAIL(TENON_INVALID,
             "aot.writable",
             path.string(),
             " is writable by all users, who could run code in this process; run chmod o-w ",
             path.string(),
             ", or set TENON_ALLOW_WRITABLE_PLUGINS=1");
}

}  // namespace

void check_write_permissions(const std::string& file) {
  const char* const allowed = std::getenv("TENON_ALLOW_WRITABLE_PLUGINS");
  if (allowed != nullptr && std::string(allowed) == "1") {
    return;
  }
  std::error_code failed;
  const fs::path target = fs::canonical(file, failed);
  if (failed) {
    return;  // opening the file reports the error
  }
  check_path(target, Entries::kOpen);
  fs::path folder = target.parent_path();
  check_path(folder, Entries::kOpen);
  while (folder != folder.parent_path()) {
    folder = folder.parent_path();
    check_path(folder, Entries::kProtectedBySticky);
  }
}
