// SPDX-License-Identifier: Apache-2.0
#include "host/trust/plugin_file.hpp"

#include "host/error/error.hpp"
#include "host/io/content_hash.hpp"
#include "host/io/regular_file.hpp"
#include "host/text/formatted.hpp"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

int64_t nanoseconds(const timespec& time) {
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

FileStamp stamp_of(const struct stat& status) {
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .size = static_cast<uint64_t>(status.st_size),
          .modified_ns = nanoseconds(status.st_mtim),
          .changed_ns = nanoseconds(status.st_ctim)};
}

std::optional<FileStamp> stamp_of(const OpenFile& file) {
  struct stat status {};
  return ::fstat(file.get(), &status) == 0 ? std::optional(stamp_of(status)) : std::nullopt;
}

}  // namespace

std::optional<FileStamp> file_stamp(const std::string& file) {
  struct stat status {};
  return ::stat(file.c_str(), &status) == 0 ? std::optional(stamp_of(status)) : std::nullopt;
}

PluginFile::PluginFile(const std::string& path, std::string described)
    : path_(path), described_(std::move(described)) {
  RegularFile opened = open_regular_file(path);
  file_ = std::move(opened.file);
  const std::optional<FileStamp> stamp = file_.is_open() ? stamp_of(file_) : std::nullopt;
  const std::optional<std::string> hash = stamp ? content_hash(file_) : std::nullopt;
  if (!hash) {
    throw Error("plugin.load_failed",
                described_ + " cannot be loaded: " +
                    (opened.problem.empty() ? "reading it failed" : opened.problem) +
                    "; make it readable, or remove it");
  }
  stamp_ = *stamp;
  hash_ = *hash;
}

void PluginFile::fail() const {
  throw Error("plugin.changed",
              described_ +
                  " was replaced or changed after it was checked; start again when its "
                  "build or copy is complete");
}

void PluginFile::check_same(const std::optional<FileStamp>& stamp, const std::string& hash) const {
  const bool is_same = hash.empty() ? !stamp || *stamp == stamp_ : hash == hash_;
  if (!is_same) {
    fail();
  }
}

void PluginFile::check_loaded(void* library) const {
  // The linker identifies libraries by device and inode: RTLD_NOLOAD finds this one again through
  // the descriptor only if the descriptor's file is the one that is mapped.
  const std::string name = formatted("/proc/self/fd/{}", file_.get());
  bool is_mapped = false;
  if (::access(name.c_str(), R_OK) == 0) {
    is_mapped = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD) == library;
    ::dlerror();
  } else {  // /proc is not mounted
    const std::optional<FileStamp> now = file_stamp(path_);
    is_mapped = now && now->device == stamp_.device && now->inode == stamp_.inode;
  }
  if (!is_mapped || stamp_of(file_) != stamp_) {
    fail();
  }
}

}  // namespace tenon
