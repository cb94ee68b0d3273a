// SPDX-License-Identifier: Apache-2.0
#include "host/io/private_file.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace tenon {
namespace {

std::string trust_problem(const struct stat& status) {
  if (!S_ISREG(status.st_mode)) {
    return "it is " + std::string(file_kind(status.st_mode)) + ", not a regular file";
  }
  if (status.st_uid != ::geteuid()) {
    return "it belongs to another user";
  }
  return (status.st_mode & (S_IWGRP | S_IWOTH)) != 0 ? "other users may write it" : "";
}

}  // namespace

void make_private_folder(const std::string& folder) {
  if (folder.empty() || ::access(folder.c_str(), F_OK) == 0) {
    return;
  }
  make_private_folder(std::filesystem::path(folder).parent_path().string());
  ::mkdir(folder.c_str(), S_IRWXU);
}

FileText read_private_file(const std::string& path, uint64_t max_bytes) {
  FileText result;
  const OpenFile file(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.get(), &status) != 0) {
    result.is_missing = errno == ENOENT;
    result.problem = errno == ELOOP ? "it is a symbolic link" : std::strerror(errno);
    return result;
  }
  result.problem = trust_problem(status);
  result.is_too_large = static_cast<uint64_t>(status.st_size) > max_bytes;
  if (!result.problem.empty() || result.is_too_large) {
    return result;
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t num_read = 0;
  result.problem = read_at(file, 0, bytes, num_read);
  if (result.problem.empty()) {
    result.text.assign(reinterpret_cast<const char*>(bytes.data()), num_read);
  }
  return result;
}

std::string write_private_file(const std::string& path, std::string_view text) {
  make_private_folder(std::filesystem::path(path).parent_path().string());
  std::string fresh = path + ".XXXXXX";
  const OpenFile file(::mkostemp(fresh.data(), O_CLOEXEC));  // of mode 0600
  if (file.is_open() && write_all(file.get(), text) && ::rename(fresh.c_str(), path.c_str()) == 0) {
    return "";
  }
  const std::string reason = std::strerror(errno);
  if (file.is_open()) {
    ::unlink(fresh.c_str());
  }
  return reason;
}

std::string user_cache_folder() {
  const auto folder_of = [](const char* name) {
    const char* const value = std::getenv(name);
    // The XDG base directory specification requires that relative paths are ignored.
    return value != nullptr && *value == '/' ? std::string(value) : std::string();
  };
  std::string folder = folder_of("XDG_CACHE_HOME");
  if (folder.empty() && !(folder = folder_of("HOME")).empty()) {
    folder += "/.cache";
  }
  return folder.empty() ? folder : folder + "/tenon";
}

}  // namespace tenon
